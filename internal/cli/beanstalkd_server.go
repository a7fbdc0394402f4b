package cli

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"millrace/internal/config"
	"millrace/internal/server"
)

// newBeanstalkdServerCommand returns the command that takes the flags of the original
// beanstalkd, so that a script that started it starts this one.
func newBeanstalkdServerCommand(p Process) *cobra.Command {
	return &cobra.Command{
		Use:   "beanstalkd-server",
		Short: "Start the server with the flags of the original beanstalkd",
		Long: `Start the server for beanstalkd clients only, with the flags of the original beanstalkd. A
value may follow its flag at once, as in -f0 and -p11300:

  -b DIR      directory of the data: data.dir
  -f MS       store.durability interval and store.sync_interval; with 0: store.durability fsync
  -F          store.durability none
  -l ADDR     address to listen on: beanstalkd.addr (127.0.0.1)
  -p PORT     port to listen on: beanstalkd.addr (11300)
  -z BYTES    largest body of a job: beanstalkd.max_job_size (65535)
  -V          log more: log.level debug
  -v          print the version and exit
  -h          print this help
  -s BYTES, -c, -n
              checked and ignored: the store looks after its files by itself
  -u USER     ignored: start the server as the user that it is to run as

A flag that is not given leaves its setting to the environment, the file that
MILLRACE_CONFIG names, and the defaults of "millrace serve": jobs are kept in
./millrace-data also without -b, and every reply is synced without -f. Logs of the
original are not read and must not lie in the directory.`,
		Example: `  millrace beanstalkd-server -l 127.0.0.1 -p 11300 -b /var/lib/beanstalkd -f 50`,
		Args:    cobra.ArbitraryArgs, // they are all flags, which this command reads itself
		// Values right behind a flag are not something that cobra's flags can have.
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := parseBeanstalkdFlags(args)
			switch {
			case err != nil:
				return err
			case b.help:
				return cmd.Help()
			case b.version:
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "millrace %s\n", buildVersion())
				return err
			}
			load := func() (*config.Config, error) {
				return server.Settings().Load(config.Input{Environ: p.Environ, Flags: b.settings})
			}
			cfg, err := load()
			if err != nil {
				return err
			}
			logger := newLogger(p.Stderr, cfg.Log)
			for _, ignored := range b.ignored {
				logger.Warn("flag of the original server ignored", slog.String("flag", ignored.flag),
					slog.String("reason", ignored.reason))
			}
			return p.serve(cmd.Context(), cfg, logger, load)
		},
	}
}

// beanstalkdFlags are the flags of the original server in our own terms.
type beanstalkdFlags struct {
	settings      map[string]string // by key
	host, port    string
	ignored       []ignoredFlag
	help, version bool
}

type ignoredFlag struct{ flag, reason string }

const (
	ownFiles = "the store looks after its files by itself"
	ownUser  = "start the server as the user that it is to run as"
)

func parseBeanstalkdFlags(args []string) (*beanstalkdFlags, error) {
	b := &beanstalkdFlags{settings: make(map[string]string)}
	for _, k := range server.Settings().Keys() {
		// Whoever started the original expects that nothing else is served.
		if k.Kind == config.KindAddresses && k.Name != "beanstalkd.addr" {
			b.settings[k.Name] = config.AddressOff
		}
	}
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		letters, ok := strings.CutPrefix(word, "-")
		if !ok || letters == "" {
			return nil, fmt.Errorf("%q takes no arguments, but got %q", "millrace beanstalkd-server", word)
		}
		if letters == "-help" {
			letters = "h"
		}
		for letters != "" {
			letter := letters[:1]
			letters = letters[1:]
			if !strings.Contains("bflpzsu", letter) {
				if err := b.set(letter, ""); err != nil {
					return nil, err
				}
				continue
			}
			value := letters
			if letters = ""; value == "" {
				if len(args) == 0 {
					return nil, fmt.Errorf("flag -%s needs a value", letter)
				}
				value, args = args[0], args[1:]
			}
			if err := b.set(letter, value); err != nil {
				return nil, fmt.Errorf("-%s: %w", letter, err)
			}
		}
	}
	if b.host != "" || b.port != "" {
		b.settings["beanstalkd.addr"] = net.JoinHostPort(cmp.Or(b.host, "127.0.0.1"), cmp.Or(b.port, "11300"))
	}
	return b, nil
}

// set takes one flag.
func (b *beanstalkdFlags) set(letter, value string) error {
	ignore := func(reason string) { b.ignored = append(b.ignored, ignoredFlag{"-" + letter, reason}) }
	switch letter {
	case "b":
		b.settings["data.dir"] = value
	case "f":
		n, err := strconv.ParseUint(value, 10, 63)
		if err != nil {
			return errWhole
		}
		b.settings["store.durability"] = "fsync"
		if n > 0 {
			b.settings["store.durability"], b.settings["store.sync_interval"] = "interval", value+"ms"
		}
	case "F":
		b.settings["store.durability"] = "none"
	case "l":
		b.host = value
	case "p":
		b.port = value
	case "z":
		b.settings["beanstalkd.max_job_size"] = value
		return checkWhole(value)
	case "s":
		ignore(ownFiles)
		return checkWhole(value)
	case "c", "n":
		ignore(ownFiles)
	case "u":
		ignore(ownUser)
	case "V":
		b.settings["log.level"] = "debug"
	case "v":
		b.version = true
	case "h":
		b.help = true
	default:
		return fmt.Errorf("unknown flag -%s", letter)
	}
	return nil
}

var errWhole = errors.New("write a whole number")
