// Package store keeps results of benchmarks as files: in a folder of one's own, and on the volume of a Benchmark, where each
// run has a folder and only so many runs are kept.
package store
