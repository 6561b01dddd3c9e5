// Command rules proves that the house rules of .golangci.yml bite: it copies the module, plants a violation of each rule,
// runs the linters of architecture on the copy, and wants to see every violation found and nothing else.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const module = "github.com/warren-mq/warren"

// plant is one violation: the body of a file named planted.go in a package, and what the linter says of it. With want
// empty it is an exception that must be let through.
type plant struct {
	dir, body, want string
}

// imports makes the body of a file that imports a package.
func imports(pkg string) string { return "import _ " + fmt.Sprintf("%q", pkg) }

const (
	usesTime = "import \"time\"\n\nvar _ = time.%s"
	prints   = "import \"fmt\"\n\nfunc planted() { fmt.Println() }\n\nvar _ = planted"
	writes   = "import (\n\t\"context\"\n\n\tcorev1 \"k8s.io/api/core/v1\"\n\t\"sigs.k8s.io/controller-runtime/pkg/client\"\n)\n\n" +
		"func planted(ctx context.Context, c %s) error { return c.%s(ctx, &corev1.Pod{}%s) }\n\nvar _ = planted"
)

var pure = []string{"tuning", "desired", "gate", "policy", "split", "migration", "bench", "status"}

var clientPure = []string{"client/envelope", "client/internal/adapt", "client/internal/ring"}

// plants lists all violations.
func plants() []plant {
	all := []plant{
		{"api/v1alpha1", imports("k8s.io/api/apps/v1"), "list 'api'"},
		{"api/v1alpha1", imports("os"), "list 'api'"},
		{"api/v1alpha1", imports(module + "/internal/broker"), "list 'api'"},
		{"internal/broker", imports("net/http"), "list 'broker'"},
		{"internal/broker", imports("k8s.io/apimachinery/pkg/types"), "list 'broker'"},
		{"internal/broker/management", imports(module + "/internal/policy"), "knows broker and nothing else"},
		{"internal/broker/management", imports("k8s.io/api/core/v1"), "knows nothing of Kubernetes"},
		{"internal/tuning", imports(module + "/internal/desired"), "tuning is the lowest"},
		{"internal/desired", imports(module + "/internal/policy"), "import only tuning"},
		{"internal/policy", imports(module + "/internal/desired"), "import only tuning"},
		{"internal/gate", imports(module + "/internal/status"), "import only tuning"},
		{"internal/policy", imports(module + "/internal/tuning"), ""},
		{"internal/split", imports(module + "/internal/migration"), "do not know one another"},
		{"internal/bench", imports(module + "/internal/status"), "list 'pure-bench'"},
		{"internal/load", imports(module + "/internal/broker/management"), "knows bench and broker and the client library"},
		{"internal/load", imports("net/http"), "spoken to through package broker"},
		{"internal/load", imports("k8s.io/api/core/v1"), "knows nothing of Kubernetes"},
		{"internal/observe", imports(module + "/internal/apply"), "observe only reads"},
		{"internal/observe", imports(module + "/internal/broker/management"), "takes a broker.Connector"},
		{"internal/apply", imports(module + "/internal/broker"), "writes to Kubernetes only"},
		{"internal/apply", fmt.Sprintf(writes, "client.Client", "Create", ""), ""},
		{"controllers", imports(module + "/internal/broker/management"), "main chooses the adapter"},
		{"elsewhere", imports(module + "/internal/broker/brokertest"), "the in-memory broker is for tests"},
		{"controllers", imports("net/http"), "spoken to through package broker"},
		{"controllers", imports("k8s.io/client-go/kubernetes"), "observe reads and apply writes"},
		{"controllers", imports("sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"), "only internal/apply writes"},
		{"controllers", fmt.Sprintf(writes, "client.Client", "Create", ""), "only internal/apply writes"},
		{"controllers", fmt.Sprintf(writes, "client.Client", "Update", ""), "only internal/apply writes"},
		{"controllers", fmt.Sprintf(writes, "client.Client", "Patch", ", nil"), "only internal/apply writes"},
		{"controllers", fmt.Sprintf(writes, "client.Client", "Delete", ""), "only internal/apply writes"},
		{"controllers", fmt.Sprintf(writes, "client.Client", "Status().Update", ""), "only internal/apply writes"},
		{"controllers", fmt.Sprintf(writes, "client.Client", "SubResource(\"eviction\").Patch", ", nil"), "only internal/apply writes"},
		{"controllers", fmt.Sprintf(writes, "interface{ GetClient() client.Client }", "GetClient().Create", ""), "only internal/apply writes"},
		{"internal/observe", fmt.Sprintf(writes, "client.WithWatch", "Delete", ""), "only internal/apply writes"},
		{"controllers", fmt.Sprintf(usesTime, "Now"), ""},
		{"controllers", prints, "only commands print"},
		{"client", imports("k8s.io/api/core/v1"), "client has no Kubernetes in it"},
		{"client", imports(module + "/internal/broker"), "client is its own module"},
		{"client", imports(module + "/client/clienttest"), "the in-memory RabbitMQ is for tests"},
		{"client", imports("github.com/prometheus/client_golang/prometheus"), "metrics are in client/warrenprom"},
		{"client/internal/link", imports(module + "/client/warrenotel"), "adapters know the client"},
		{"client/warrenprom", imports("github.com/prometheus/client_golang/prometheus"), ""},
		{"client", fmt.Sprintf(usesTime, "Now"), ""},
		{"client", prints, "only commands print"},
		{"client/internal/adapt", imports("sync"), "belong to one goroutine"},
		{"client/internal/ring", imports("sync/atomic"), "belong to one goroutine"},
		{"client/envelope", imports("sync"), ""},
	}
	for _, dir := range clientPure {
		for _, pkg := range []string{"os", "context", "net", "math/rand/v2", "crypto/rand", "sync/atomic", module + "/client",
			"github.com/prometheus/client_golang/prometheus"} {
			all = append(all, plant{dir, imports(pkg), "is not allowed from list"})
		}
		for _, function := range []string{"Now", "Since", "NewTimer"} {
			all = append(all, plant{dir, fmt.Sprintf(usesTime, function), "pure packages have no clock"})
		}
	}
	for _, name := range pure {
		dir := "internal/" + name
		for _, pkg := range []string{"os", "os/exec", "log", "log/slog", "net/http", "context", "math/rand/v2", "crypto/rand",
			"sigs.k8s.io/controller-runtime/pkg/client", "k8s.io/client-go/kubernetes", module + "/internal/broker/management",
			module + "/internal/observe", module + "/controllers"} {
			all = append(all, plant{dir, imports(pkg), "is not allowed from list"})
		}
		for _, function := range []string{"Now", "Sleep", "After", "Since", "NewTimer"} {
			all = append(all, plant{dir, fmt.Sprintf(usesTime, function), "pure packages have no clock"})
		}
	}
	return all
}

func main() {
	linter := flag.String("linter", "", "the program golangci-lint")
	flag.Parse()
	if err := run(*linter); err != nil {
		fmt.Fprintln(os.Stderr, "hack/verify/rules:", err)
		os.Exit(1)
	}
}

func run(linter string) (err error) {
	copied, err := copyModule()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(copied)) }()
	// Packages that are not written yet have rules already.
	for _, name := range pure {
		if err := write(filepath.Join(copied, "internal", name, "exists.go"), "package "+name+"\n"); err != nil {
			return err
		}
	}
	for _, dir := range []string{"client", "client/clienttest", "client/warrenotel"} {
		if err := write(filepath.Join(copied, dir, "exists.go"), "package "+filepath.Base(dir)+"\n"); err != nil {
			return err
		}
	}
	planted := map[string]plant{}
	for i, p := range plants() {
		// The rule of internal/broker is about that package alone; else a package of its own keeps plants apart.
		file := filepath.Join(p.dir, fmt.Sprintf("planted%d", i), "planted.go")
		if p.dir == "internal/broker" {
			file = filepath.Join(p.dir, fmt.Sprintf("planted%d.go", i))
		}
		planted[file] = p
		name := filepath.Base(filepath.Dir(file))
		if err := write(filepath.Join(copied, file), fmt.Sprintf("// Package %s is planted.\npackage %s\n\n%s\n", name, name, p.body)); err != nil {
			return err
		}
	}
	findings, err := lint(linter, copied, planted)
	if err != nil {
		return err
	}
	return judge(planted, findings)
}

// copyModule copies what the rules are about into a temporary folder. What is planted in client belongs to the copied module,
// whose dependencies it may import: the linter stops at what it cannot load.
func copyModule() (string, error) {
	list, err := exec.Command("git", "ls-files", "-co", "--exclude-standard", "go.mod", "go.sum", ".golangci.yml", "api", "controllers", "internal").Output()
	if err != nil {
		return "", fmt.Errorf("git ls-files: %w", err)
	}
	to, err := os.MkdirTemp("", "warren-rules-")
	if err != nil {
		return "", err
	}
	for file := range strings.Lines(string(list)) {
		file = strings.TrimSpace(file)
		content, err := os.ReadFile(file)
		if err == nil {
			err = write(filepath.Join(to, file), string(content))
		}
		if err != nil {
			return "", errors.Join(err, os.RemoveAll(to))
		}
	}
	alone := exec.Command("go", "mod", "edit", "-dropreplace="+module+"/client", "-droprequire="+module+"/client")
	alone.Dir = to
	if output, err := alone.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("go mod edit: %w: %s", err, output), os.RemoveAll(to))
	}
	return to, nil
}

func write(file, content string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(content), 0o644)
}

// finding is what the linter says of one place.
type finding struct {
	FromLinter, Text string
	Pos              struct{ Filename string }
}

// lint runs the linters of architecture on the planted packages and answers with the findings by file.
func lint(linter, dir string, planted map[string]plant) (map[string][]finding, error) {
	args := []string{"run", "--enable-only", "depguard,forbidigo", "--output.json.path", "stdout", "--show-stats=false",
		"--issues-exit-code", "0", "--max-issues-per-linter", "0", "--max-same-issues", "0", "--allow-parallel-runners"}
	packages := map[string]bool{}
	for file := range planted {
		packages["./"+filepath.Dir(file)] = true
	}
	for pkg := range packages {
		args = append(args, pkg)
	}
	cmd := exec.Command(linter, args...)
	cmd.Dir = dir
	var said bytes.Buffer
	cmd.Stderr = &said
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("golangci-lint: %w\n%s", err, said.String())
	}
	var report struct{ Issues []finding }
	if err := json.Unmarshal(output, &report); err != nil {
		return nil, fmt.Errorf("golangci-lint's output: %w", err)
	}
	byFile := map[string][]finding{}
	for _, f := range report.Issues {
		byFile[f.Pos.Filename] = append(byFile[f.Pos.Filename], f)
	}
	return byFile, nil
}

// judge compares what was planted with what was found.
func judge(planted map[string]plant, findings map[string][]finding) error {
	var failures []error
	for file, p := range planted {
		found := findings[file]
		named := slices.ContainsFunc(found, func(f finding) bool { return strings.Contains(f.Text, p.want) })
		switch {
		case p.want == "" && len(found) > 0:
			failures = append(failures, fmt.Errorf("%s is allowed, but %s says: %s\n%s", p.dir, found[0].FromLinter, found[0].Text, p.body))
		case p.want != "" && !named:
			failures = append(failures, fmt.Errorf("in %s this passes, or for another reason (%v):\n%s", p.dir, found, p.body))
		}
	}
	for file, found := range findings {
		if _, ok := planted[file]; !ok {
			failures = append(failures, fmt.Errorf("%s: %s", file, found[0].Text))
		}
	}
	if len(failures) == 0 {
		fmt.Printf("the house rules bite: %d violations planted and found\n", len(planted))
	}
	return errors.Join(failures...)
}
