package figures

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestRowsAreReadBack(t *testing.T) {
	s := Series{3, 1, 2}
	rows := []Row{
		{Name: "messages", Value: s.Median(), Unit: "messages/s", Goal: ">= 2", Holds: s.Median() >= 2, Spread: s.Spread(), Note: "3 runs"},
		{Name: "nothing", Value: Series(nil).Median(), Goal: NoGoal, Spread: Series(nil).Spread()},
	}
	if rows[0].Value != 2 || rows[0].Spread != 0.5 || rows[1].Value != 0 || rows[1].Spread != 0 {
		t.Fatalf("got %+v", rows)
	}
	file := filepath.Join(t.TempDir(), "new", "rows.json")
	var table bytes.Buffer
	if err := Write(&table, file, rows); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(table.String(), "±50%    >= 2  true") {
		t.Errorf("the table is\n%s", &table)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var back []Row
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, rows) {
		t.Errorf("read back %+v, %v", back, err)
	}
	if LoadAverage() == "" {
		t.Error("no load average")
	}
}
