//go:build broker

package load_test

import "flag"

// long makes the tests do all that they can: 5,000 connections, every built-in scenario, counter-experiments.
var long = flag.Bool("long", false, "the long form: 5,000 connections, every built-in scenario, counter-experiments")
