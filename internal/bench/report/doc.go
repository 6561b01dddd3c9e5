// Package report draws results of benchmarks as one page of HTML. The page needs nothing but itself: no script, no network,
// charts as SVG within it. It is readable on a phone and follows the reader's choice of a light or dark screen.
package report
