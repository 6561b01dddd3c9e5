// Package schedule reads times that come again and again. It is pure; the time is an argument.
package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// parser takes the five fields and nothing else: words such as @every count from a start, and zones are read from files.
var parser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// Parse reads five fields, in UTC; it answers nil for "".
func Parse(text string) (cron.Schedule, error) {
	if text == "" {
		return nil, nil
	}
	if strings.Contains(text, "TZ=") {
		return nil, errors.New("the time is UTC: a time zone cannot be given")
	}
	schedule, err := parser.Parse(text)
	if err != nil {
		return nil, err
	}
	if schedule.Next(time.Unix(0, 0).UTC()).IsZero() {
		return nil, fmt.Errorf("%q never comes", text)
	}
	return schedule, nil
}

// Open tells whether now is within so long after a time of the schedule.
func Open(schedule cron.Schedule, long time.Duration, now time.Time) bool {
	now = now.UTC()
	return !schedule.Next(now.Add(-long)).After(now)
}
