package cli

import (
	"cmp"
	"flag"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// newBeanstalkdServerCommand returns the command that takes the flags of the original beanstalkd.
func newBeanstalkdServerCommand(p Process) *cobra.Command {
	return newOriginalCommand(p, &cobra.Command{
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
	}, parseBeanstalkdFlags)
}

// beanstalkdFlags are those that were read so far.
type beanstalkdFlags struct {
	*original
	host, port string
	help       bool
}

// ownUser is why -u is ignored.
const ownUser = "start the server as the user that it is to run as"

func parseBeanstalkdFlags(args []string) (*original, error) {
	b := &beanstalkdFlags{original: newOriginal("beanstalkd.addr")}
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
				if err := b.take(letter, ""); err != nil {
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
			if err := b.take(letter, value); err != nil {
				return nil, fmt.Errorf("-%s: %w", letter, err)
			}
		}
	}
	if b.host != "" || b.port != "" {
		b.settings["beanstalkd.addr"] = net.JoinHostPort(cmp.Or(b.host, "127.0.0.1"), cmp.Or(b.port, "11300"))
	}
	if b.help {
		return nil, flag.ErrHelp
	}
	return b.original, nil
}

// take takes one flag.
func (b *beanstalkdFlags) take(letter, value string) error {
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
		b.version = "millrace " + buildVersion().String()
	case "h":
		b.help = true
	default:
		return fmt.Errorf("unknown flag -%s", letter)
	}
	return nil
}
