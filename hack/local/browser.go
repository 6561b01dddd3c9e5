package main

import (
	"flag"
	"fmt"
	"os/exec"

	"github.com/warren-mq/warren/hack/local/internal/host"
)

// browsers that do, in the order in which they are looked for.
var browsers = []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

func browserCommand() command {
	return command{
		name:  "browser",
		short: "See that there is a headless Chromium with fonts, install it where there is none, and print its path",
		run: func(flags *flag.FlagSet, args []string) error {
			if err := flags.Parse(args); err != nil {
				return err
			}
			needs := host.ForBrowser
			if findBrowser() != "" {
				needs = host.ForFonts // it need not be the one of the package
			}
			if err := host.Ensure(needs); err != nil {
				return fmt.Errorf("no browser to look at reports with: %w", err)
			}
			path := findBrowser()
			if path == "" {
				return fmt.Errorf("the packages are installed, and none of %v is in PATH", browsers)
			}
			fmt.Println(path)
			return nil
		},
	}
}

func findBrowser() string {
	for _, name := range browsers {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}
