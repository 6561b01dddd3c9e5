package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/warren-mq/warren/hack/local/internal/broker"
	"github.com/warren-mq/warren/hack/local/internal/cache"
	"github.com/warren-mq/warren/hack/local/internal/host"
	"github.com/warren-mq/warren/hack/local/internal/rabbit"
	"github.com/warren-mq/warren/hack/local/internal/state"
	"github.com/warren-mq/warren/hack/local/internal/tools"
)

func brokerCommand() command {
	return command{
		name:  "broker",
		args:  "start|stop|kill|restart|pause|resume|list|exec ...",
		short: "Run single RabbitMQ nodes on loopback, without a cluster",
		long: `start --version 3.10.8|4.3.6 [--name NAME] [--plugins a,b] [--user U] [--password P] [--join NAME]
      [--tls FOLDER] [--disk-writes N] [--link-rate RATE]
        start a broker, wait until its management API answers, print one JSON line;
        --join makes it a member of the cluster of a running broker, whose users it has;
        --tls adds listeners with the ca.pem, cert.pem and key.pem of a folder;
        --disk-writes has its data on a disk that makes so many writes a second;
        --link-rate gives it a network of its own with a link of so much, as 20mbit
stop    --name NAME | --all-mine
        end it and remove its files; --all-mine ends all that this checkout started
kill    --name NAME
        end it as a power cut does; its files stay
restart --name NAME
        kill it if it runs, start it on its data and ports, print its JSON line
pause   --name NAME, resume --name NAME
        stop all its processes where they are, and let them go on
list    print one JSON line per broker of this checkout
exec    --name NAME -- COMMAND...
        run a command such as rabbitmqctl inside it`,
		run: runBroker,
	}
}

func runBroker(flags *flag.FlagSet, args []string) error {
	actions := map[string]func(*flag.FlagSet, []string) error{
		"start": brokerStart, "stop": brokerStop, "list": brokerList, "exec": brokerExec, "restart": brokerRestart,
		"kill":   onBroker(broker.Kill),
		"pause":  onBroker(func(name string) error { return broker.Signal(name, syscall.SIGSTOP) }),
		"resume": onBroker(func(name string) error { return broker.Signal(name, syscall.SIGCONT) }),
	}
	if len(args) == 0 || actions[args[0]] == nil {
		if err := flags.Parse(args); err != nil {
			return err
		}
		flags.Usage()
		return fmt.Errorf("broker needs one of start, stop, kill, restart, pause, resume, list, exec")
	}
	if err := host.Root("running a broker"); err != nil {
		return err
	}
	return actions[args[0]](flags, args[1:])
}

func brokerStart(flags *flag.FlagSet, args []string) error {
	version := flags.String("version", "4.3.6", "version or version line of RabbitMQ")
	name := flags.String("name", "", "name of the broker (default: from the checkout and the version line)")
	plugins := flags.String("plugins", strings.Join(broker.DefaultPlugins, ","), "plugins to enable, with commas between them")
	user := flags.String("user", "", "user to create (default warren)")
	password := flags.String("password", "", "the user's password (default: random)")
	join := flags.String("join", "", "name of a running broker whose cluster the new one joins")
	tls := flags.String("tls", "", "folder with ca.pem, cert.pem and key.pem, for listeners with TLS")
	writes := flags.Int("disk-writes", 0, "writes a second that the disk of its data makes (default: as many as this machine's)")
	rate := flags.String("link-rate", "", "bits a second that its network takes each way, as 20mbit (default: loopback)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	line, err := rabbit.Find(*version)
	if err != nil {
		return err
	}
	checkout, err := tools.Checkout()
	if err != nil {
		return err
	}
	built, err := ensure(line)
	if err != nil {
		return err
	}
	if *name == "" {
		*name = state.DefaultName(checkout) + "-" + strings.ReplaceAll(line.Name, ".", "-")
	}
	started, err := broker.Start(built, broker.Options{
		Name: *name, Owner: checkout, Plugins: strings.Split(*plugins, ","), Username: *user, Password: *password, Join: *join,
		TLS: *tls, DiskWrites: *writes, LinkRate: *rate,
	})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(started)
}

// ensure builds the root file system of a line if the cache lacks it.
func ensure(line rabbit.Line) (rabbit.Built, error) {
	cacheDir, err := cache.Root()
	if err != nil {
		return rabbit.Built{}, err
	}
	if err := host.Ensure(host.ForBrokers); err != nil {
		return rabbit.Built{}, err
	}
	return rabbit.Ensure(cacheDir, line)
}

// onBroker is an action on the broker that --name names.
func onBroker(do func(name string) error) func(*flag.FlagSet, []string) error {
	return func(flags *flag.FlagSet, args []string) error {
		name := flags.String("name", "", "name of the broker")
		if err := flags.Parse(args); err != nil {
			return err
		}
		if *name == "" {
			return fmt.Errorf("which broker? Give --name")
		}
		return do(*name)
	}
}

func brokerRestart(flags *flag.FlagSet, args []string) error {
	return onBroker(func(name string) error {
		version, err := broker.VersionOf(name)
		if err != nil {
			return err
		}
		line, err := rabbit.Find(version)
		if err != nil {
			return err
		}
		built, err := ensure(line)
		if err != nil {
			return err
		}
		started, err := broker.Restart(built, name)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(started)
	})(flags, args)
}

func brokerStop(flags *flag.FlagSet, args []string) error {
	name := flags.String("name", "", "name of the broker")
	mine := flags.Bool("all-mine", false, "all brokers that this checkout started")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if (*name == "") != *mine {
		return fmt.Errorf("broker stop needs either --name or --all-mine")
	}
	if *name != "" {
		return broker.Stop(*name)
	}
	brokers, err := ownBrokers()
	if err != nil {
		return err
	}
	for _, b := range brokers {
		err = errors.Join(err, broker.Stop(b.Name))
	}
	return err
}

func brokerList(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	brokers, err := ownBrokers()
	if err != nil {
		return err
	}
	for _, b := range brokers {
		if err := json.NewEncoder(os.Stdout).Encode(b); err != nil {
			return err
		}
	}
	return nil
}

// ownBrokers are those that this checkout started.
func ownBrokers() ([]broker.Broker, error) {
	checkout, err := tools.Checkout()
	if err != nil {
		return nil, err
	}
	return broker.List(checkout)
}

func brokerExec(flags *flag.FlagSet, args []string) error {
	name := flags.String("name", "", "name of the broker")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *name == "" || flags.NArg() == 0 {
		return fmt.Errorf("broker exec needs --name NAME -- COMMAND")
	}
	return broker.Exec(*name, flags.Args())
}
