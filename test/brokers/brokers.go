// Package brokers gives tests real RabbitMQ brokers: those that a variable names, or those that hack/local starts. Brokers
// of hack/local can also be killed, paused and started again.
package brokers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Broker is where a broker is: what hack/local prints, or a variable says.
type Broker struct {
	Name       string `json:"name"`
	Version    string `json:"version"`
	Management string `json:"management"`
	AMQP       string `json:"amqp"`
	Prometheus string `json:"prometheus"`
	Username   string `json:"username"`
	Password   string `json:"password"`
	Dir        string `json:"dir"`
	// PID is a process that all others of the broker descend from; 0 when the broker is elsewhere.
	PID int `json:"pid"`
	// With TLS, the same places.
	AMQPS         string `json:"amqps"`
	ManagementTLS string `json:"managementTLS"`
	PrometheusTLS string `json:"prometheusTLS"`
	// Exec is put before commands that run beside the broker.
	Exec []string `json:"exec"`

	local bool
}

// FromVariable reads the value of a variable that names a broker, either a URL with credentials
// (http://user:password@host:15672) or JSON with the fields of Broker. It is nil without a value.
func FromVariable(value string) (*Broker, error) {
	switch {
	case value == "":
		return nil, nil
	case strings.HasPrefix(value, "{"):
		var at Broker
		if err := json.Unmarshal([]byte(value), &at); err != nil {
			return nil, errors.New("not valid JSON") // without the value, which holds a password
		}
		return &at, nil
	}
	parsed, err := url.Parse(value)
	if err != nil || parsed.User == nil {
		return nil, errors.New("want a URL as http://user:password@host:15672")
	}
	password, _ := parsed.User.Password()
	return &Broker{
		Management: parsed.Scheme + "://" + parsed.Host, Prometheus: "http://" + parsed.Hostname() + ":15692",
		Username: parsed.User.Username(), Password: password,
	}, nil
}

// Start a broker with hack/local. What follows the name are further arguments of its "broker start". Stop is to be called
// also when it fails.
func Start(version, name string, arguments ...string) (*Broker, error) {
	b := &Broker{Name: name, local: true}
	out, err := local(append([]string{"start", "--version", version, "--name", name}, arguments...)...)
	if err != nil {
		return b, fmt.Errorf("no RabbitMQ %s: %w", version, err)
	}
	if err := json.Unmarshal(bytes.TrimSpace(out), b); err != nil {
		return b, fmt.Errorf("hack/local printed %q: %w", out, err)
	}
	return b, nil
}

// Stop ends a broker that Start made, with all its files.
func (b *Broker) Stop() error { return b.tell("stop") }

// Kill ends a broker that Start made as a power cut does; its files stay.
func (b *Broker) Kill() error { return b.tell("kill") }

// Restart starts a broker that Start made again on its data and ports, and kills it before if it runs.
func (b *Broker) Restart() error { return b.tell("restart") }

// Pause stops all processes of a broker that Start made where they are.
func (b *Broker) Pause() error { return b.tell("pause") }

// Resume ends a Pause.
func (b *Broker) Resume() error { return b.tell("resume") }

func (b *Broker) tell(verb string) error {
	if !b.local {
		return fmt.Errorf("cannot %s a broker that hack/local did not start", verb)
	}
	_, err := local(verb, "--name", b.Name)
	return err
}

// Run a command such as rabbitmqctl beside the broker.
func (b *Broker) Run(command ...string) ([]byte, error) {
	if b.local {
		return local(append([]string{"exec", "--name", b.Name, "--"}, command...)...)
	}
	if len(b.Exec) == 0 {
		return nil, errors.New(`nothing says how to run a command beside the broker: name it with JSON that has "exec"`)
	}
	command = append(b.Exec[1:len(b.Exec):len(b.Exec)], command...)
	out, err := exec.Command(b.Exec[0], command...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, out)
	}
	return out, nil
}

// local runs hack/local's command broker.
func local(arguments ...string) ([]byte, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	command := exec.Command("go", append([]string{"run", "./hack/local", "broker"}, arguments...)...)
	command.Dir = root
	var complaints bytes.Buffer
	command.Stderr = &complaints
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("hack/local broker %s: %w\n%s%s", strings.Join(arguments, " "), err, complaints.String(), out)
	}
	return out, nil
}

// Root of the checkout that the test runs in.
func Root() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := at; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "hack", "local", "main.go")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not inside a checkout of Warren", at)
		}
	}
}
