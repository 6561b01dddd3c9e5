package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/warren-mq/warren/hack/local/internal/image"
	"github.com/warren-mq/warren/hack/local/internal/images"
	"github.com/warren-mq/warren/hack/local/internal/tools"
)

func imagesCommand() command {
	return command{
		name:  "images",
		short: "Build the RabbitMQ images and the pause image into the cache and print their files and tags",
		long: "The RabbitMQ images come from Debian's archive (DEBIAN_MIRROR names another one) by debootstrap.\n" +
			"A later patch of the same version line is taken and said; another line is an error.",
		run: runImages,
	}
}

func runImages(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	builder, err := tools.NewBuilder()
	if err != nil {
		return err
	}
	all, err := images.Ensure(builder)
	if err != nil {
		return err
	}
	for _, archive := range all {
		fmt.Printf("%s\t%s\n", archive.Path, strings.Join(archive.Tags, ","))
	}
	return nil
}

func imageCommand() command {
	return command{
		name:  "image",
		args:  "--binary PATH --tag REF -o FILE",
		short: "Write an image (docker-archive) of one static program, run as user 65532",
		run:   runImage,
	}
}

func runImage(flags *flag.FlagSet, args []string) error {
	binary := flags.String("binary", "", "the static program, which becomes the entrypoint /NAME")
	tag := flags.String("tag", "", "name of the image, with a tag")
	output := flags.String("o", "", "file to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *binary == "" || *tag == "" || *output == "" || flags.NArg() > 0 {
		flags.Usage()
		return fmt.Errorf("image needs --binary, --tag and -o")
	}
	if err := os.MkdirAll(filepath.Dir(*output), 0o755); err != nil {
		return err
	}
	return image.Binary(*binary, *tag, *output)
}
