package rabbit

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/warren-mq/warren/hack/local/internal/cache"
	"github.com/warren-mq/warren/hack/local/internal/host"
	"github.com/warren-mq/warren/hack/local/internal/image"
	"github.com/warren-mq/warren/hack/progress"
)

// recipe changes when code that key does not see changes what comes out.
const recipe = "1"

// key hashes what decides how a line's image comes out.
func key(line Line) (string, error) {
	run, err := json.Marshal(config(line.Want))
	if err != nil {
		return "", err
	}
	return cache.Key([]byte(recipe), []byte(line.Suite), []byte(line.Want), entrypoint, run,
		[]byte(arrangement), []byte(defaults), []byte(strings.Join(trimmed, " "))), nil
}

//go:embed docker-entrypoint.sh
var entrypoint []byte

// Built is a version line in the cache.
type Built struct {
	Line    Line
	Version string   `json:"version"`
	Tags    []string `json:"tags"`
	RootFS  string   `json:"-"` // the unpacked root file system
	Archive string   `json:"-"` // docker-archive of the image
}

// Ensure builds the root file system and the image of a line unless the cache has them.
func Ensure(cacheDir string, line Line) (Built, error) {
	key, err := key(line)
	if err != nil {
		return Built{}, err
	}
	dir := filepath.Join(cacheDir, "rabbitmq", line.Name, key)
	entry := cache.Entry{
		Dir:   dir,
		Label: fmt.Sprintf("building RabbitMQ %s from Debian %s", line.Want, line.Suite),
		Takes: "about 2 minutes",
		Build: func(tmp string) error { return build(line, tmp) },
	}
	if _, err := os.Stat(dir); err != nil {
		if err := host.Root("building an image with debootstrap"); err != nil {
			return Built{}, err
		}
		if err := host.Ensure(host.ForImages); err != nil {
			return Built{}, err
		}
	}
	if err := entry.Ensure(); err != nil {
		return Built{}, err
	}
	return load(line, dir)
}

// load reads what an earlier build left.
func load(line Line, dir string) (Built, error) {
	built := Built{Line: line, RootFS: filepath.Join(dir, "rootfs"), Archive: filepath.Join(dir, "image.tar")}
	content, err := os.ReadFile(filepath.Join(dir, "built.json"))
	if err != nil {
		return built, err
	}
	return built, json.Unmarshal(content, &built)
}

// build fills a folder with rootfs, image.tar and built.json.
func build(line Line, dir string) error {
	root := filepath.Join(dir, "rootfs")
	if err := debootstrap(line.Suite, root, filepath.Join(dir, "debootstrap.log")); err != nil {
		return err
	}
	version, err := installed(root)
	if err != nil {
		return err
	}
	note, err := line.check(version)
	if err != nil {
		return err
	}
	if note != "" {
		progress.Say("%s", note)
	}
	if err := arrange(root, version); err != nil {
		return err
	}
	if err := trim(root); err != nil {
		return err
	}
	built := Built{Version: version, Tags: line.Tags(version)}
	progress.Say("writing the image %s", strings.Join(built.Tags, ", "))
	if err := image.Write(filepath.Join(dir, "image.tar"), built.Tags, config(version), image.Folder(root)); err != nil {
		return err
	}
	content, err := json.Marshal(built)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "built.json"), content, 0o644)
}

// debootstrap installs a minimal Debian with RabbitMQ into a folder.
func debootstrap(suite, root, log string) error {
	// Without a mirror of the user's, debootstrap takes the one that it comes with.
	args := []string{"--variant=minbase", "--include=rabbitmq-server,ca-certificates", suite, root, os.Getenv("DEBIAN_MIRROR")}
	// A release younger than this machine's debootstrap has no script of its own; that of sid fits.
	const scripts = "/usr/share/debootstrap/scripts/"
	if _, err := os.Stat(scripts + suite); err != nil {
		args = append(args, scripts+"sid")
	}
	out, err := os.Create(log)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	cmd := exec.Command("debootstrap", args...)
	cmd.Stdout, cmd.Stderr = out, out
	// In namespaces of its own, bound to the life of this thread, it leaves no process and no mount behind
	// when this program is interrupted.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
	}
	if err := cmd.Run(); err != nil {
		said, _ := os.ReadFile(log)
		lines := strings.Split(strings.TrimSpace(string(said)), "\n")
		return fmt.Errorf("debootstrap %s: %w (is Debian's archive reachable? set DEBIAN_MIRROR for another one)\n%s",
			suite, err, strings.Join(lines[max(0, len(lines)-15):], "\n"))
	}
	return nil
}

// installed is the version of RabbitMQ in a root file system, by the folder of its libraries.
func installed(root string) (string, error) {
	const prefix = "rabbitmq_server-"
	found, err := filepath.Glob(filepath.Join(root, "usr/lib/rabbitmq/lib", prefix+"*"))
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%d folders usr/lib/rabbitmq/lib/%s* in the root file system, expected one", len(found), prefix)
	}
	return strings.TrimPrefix(filepath.Base(found[0]), prefix), nil
}

// config is how to run the image.
func config(version string) image.Config {
	home := "/usr/lib/rabbitmq/lib/rabbitmq_server-" + version
	port := struct{}{}
	return image.Config{
		Env: []string{
			// The scripts of the server itself come first: Debian's wrapper writes to /var/log and switches users.
			"PATH=" + home + "/sbin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			"HOME=" + dataDir,
			"LANG=C.UTF-8",
			"RABBITMQ_DATA_DIR=" + dataDir,
			"RABBITMQ_VERSION=" + version,
			"RABBITMQ_LOGS=-",
			// 3.10 opens a log of upgrades whatever RABBITMQ_LOGS says; with a read-only root file system only
			// the data folder is sure to be writable.
			"RABBITMQ_LOG_BASE=" + dataDir + "/log",
		},
		Entrypoint: []string{"docker-entrypoint.sh"},
		Cmd:        []string{"rabbitmq-server"},
		ExposedPorts: map[string]struct{}{
			"4369/tcp": port, "5671/tcp": port, "5672/tcp": port, "15671/tcp": port, "15672/tcp": port,
			"15691/tcp": port, "15692/tcp": port, "25672/tcp": port,
		},
		Volumes: map[string]struct{}{dataDir: {}},
	}
}

// Env is the environment of the image, for a broker that runs from the root file system.
func (b Built) Env() []string { return config(b.Version).Env }
