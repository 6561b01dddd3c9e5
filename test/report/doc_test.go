// Package report_test opens the report of a benchmark in a real browser, as a reader does: on a phone and on a desktop, on a
// light and on a dark screen. Its tests have the build tag browser.
package report_test
