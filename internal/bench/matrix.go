package bench

import (
	"embed"
	"fmt"
)

//go:embed scenarios/*.yaml
var scenarioFiles embed.FS

// matrix is the order in which a report shows the built-in scenarios.
var matrix = []string{
	"SmallMessages", "SmallConfirmed", "LargeMessages", "SteadyRate", "PublishOnly", "ConsumeOnly",
	"Backlog", "BacklogRecovery", "Transient", "ConfirmWindow1", "ConfirmWindow50", "ConfirmWindow500",
	"ConfirmWindow5000", "Prefetch1", "Prefetch50", "Prefetch200", "Prefetch1000", "AckEvery100",
	"BatchConsumers", "ConnectionStorm", "ConnectionStormJittered", "FanIn", "ManyQueues", "Classic",
	"Quorum", "Stream", "Mirrored", "MultiHost",
}

// Matrix is the built-in scenarios, in the order of a report. Each call makes them anew: a caller may change them.
func Matrix() []Scenario {
	all := make([]Scenario, 0, len(matrix))
	for _, name := range matrix {
		s, err := DecodeScenario(ScenarioFile(name))
		if err != nil {
			panic(fmt.Sprintf("the built-in scenario %s: %v", name, err)) // a test reads each
		}
		all = append(all, s)
	}
	return all
}

// Builtin is the built-in scenario of that name. The error names those that there are.
func Builtin(name string) (Scenario, error) {
	text := ScenarioFile(name)
	if text == nil {
		if near := nearest(name, matrix); near != "" {
			return Scenario{}, fmt.Errorf("there is no scenario %q; did you mean %s?", name, near)
		}
		return Scenario{}, fmt.Errorf("there is no scenario %q; there are %v", name, matrix)
	}
	return DecodeScenario(text)
}

// ScenarioFile is the file of a built-in scenario, for users to change; nil for a name that is not one.
func ScenarioFile(name string) []byte {
	text, err := scenarioFiles.ReadFile("scenarios/" + name + ".yaml")
	if err != nil {
		return nil
	}
	return text
}
