package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"
)

// bodies makes n bodies of one size, the same in every process.
func bodies(kind string, size, n int) [][]byte {
	chance := rand.New(rand.NewPCG(1, uint64(size))) //nolint:gosec // the same bodies in every run
	out := make([][]byte, n)
	for i := range out {
		if kind == bodyJSON {
			out[i] = records(chance, size)
			continue
		}
		out[i] = make([]byte, size)
		for j := range out[i] {
			out[i][j] = byte(chance.Uint32())
		}
	}
	return out
}

const (
	bodyRandom = "random"
	bodyJSON   = "json"
)

// record is a line of an order, as services send them: names repeat, identifiers and amounts do not.
type record struct {
	ID       string    `json:"id"`
	Tenant   string    `json:"tenant"`
	Customer string    `json:"customer"`
	SKU      string    `json:"sku"`
	Quantity int       `json:"quantity"`
	Price    float64   `json:"price"`
	Currency string    `json:"currency"`
	Status   string    `json:"status"`
	Created  time.Time `json:"created_at"`
	Note     string    `json:"note,omitempty"`
}

// records is a JSON document of about so many bytes.
func records(chance *rand.Rand, size int) []byte {
	states := []string{"new", "paid", "picked", "shipped", "returned"}
	notes := []string{"", "", "", "leave at the door", "call before delivery", "gift, no invoice in the parcel"}
	out := []byte(`{"orders":[`)
	for len(out) < size {
		line, err := json.Marshal(record{
			ID:       fmt.Sprintf("%08x-%04x-%04x-%012x", chance.Uint32(), chance.Uint32()&0xffff, chance.Uint32()&0xffff, chance.Uint64()>>16),
			Tenant:   fmt.Sprintf("t-%02d", chance.IntN(40)),
			Customer: fmt.Sprintf("c-%07d", chance.IntN(1e7)),
			SKU:      fmt.Sprintf("SKU-%05d", chance.IntN(1e5)),
			Quantity: 1 + chance.IntN(9),
			Price:    float64(chance.IntN(1e5)) / 100,
			Currency: "EUR",
			Status:   states[chance.IntN(len(states))],
			Created:  time.Unix(1767225600+int64(chance.IntN(1e6)), int64(chance.IntN(1000))*1e6).UTC(),
			Note:     notes[chance.IntN(len(notes))],
		})
		if err != nil {
			panic(err) // strings and numbers
		}
		out = append(append(out, line...), ',')
	}
	return append(out[:len(out)-1], `]}`...)
}
