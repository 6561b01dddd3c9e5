// Package plan decides what a Benchmark does next: when a run starts, what it runs, what its results mean, and what of it
// may be removed from the broker. It is pure; the time is an argument.
package plan
