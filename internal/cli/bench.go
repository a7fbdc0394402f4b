package cli

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/bench"
	"millrace/internal/config"
)

const benchLong = `Put load on a running server through one of its protocols and measure it: producers push
jobs, workers fetch and acknowledge them, each on a connection of its own. Every job is
numbered and looked for, so that a job that is lost or comes twice is counted.

Without --rate each producer pushes again as soon as it has its answer, and may be
--in-flight pushes ahead of the workers: that gives the highest throughput. With --rate
pushes are due at fixed times whether or not the server keeps up, and latencies count
from those times: that gives the latencies that clients see.

Without workers (--workers 0) the queue is emptied after the measurement; without
producers it is filled with --count jobs before it. An interrupt ends the measurement early
and leaves the queue empty; a second one ends the command.

The load should come from another machine than the server's, or the two share the
processors. --ceiling first does the same to a server that does nothing, in a process of its
own on this machine: the ratio to it says more than a figure of one machine.

With --tls it speaks TLS, whatever the protocol; the other --tls flags also say whom to trust
at the web address. The server that does nothing has no TLS.

The server's durability is asked for at its web address; if that wants a login, give
MILLRACE_API_TOKEN or MILLRACE_API_PASSWORD.

Exit status: 0 if all jobs came, 1 if jobs were lost or the run could not be finished, 2 if
the command line or the configuration is wrong.`

const benchExample = `  # as fast as it goes: 32 producers and 32 workers for ten seconds
  millrace bench --protocol faktory --producers 32 --workers 32

  # what clients see at 2,000 jobs per second of mixed sizes
  millrace bench --protocol lmstfy --rate 2000 --size 100,1000,10000 --duration 1m

  # pushes only, 64 at once, next to a server that does nothing
  millrace bench --protocol masenko --workers 0 --batch 64 --count 1000000 --ceiling

  # how fast a backlog of 100,000 jobs is worked off, for a program to read
  millrace bench --protocol tarantool --producers 0 --workers 16 --count 100000 --json

  # another machine, with TLS
  millrace bench --protocol workq --addr queue.internal:9922 --tls --tls-ca ca.pem --api https://queue.internal:7420`

// benchFlags are the flags of the command.
type benchFlags struct {
	bench.Options
	protocol   string
	secretFile string
	speakTLS   bool
	tls        tlsFlags
	file       string
	api        bench.Web
	dir        string
	ceiling    bool
	asJSON     bool
}

func newBenchCommand(p Process) *cobra.Command {
	f := &benchFlags{}
	cmd := &cobra.Command{
		Use:     "bench",
		Short:   "Put load on a running server and measure it",
		Long:    benchLong,
		Example: benchExample,
		Args:    noArgs,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	addProtocol(cmd, &f.protocol)
	flags.StringVar(&f.Addr, "addr", "", "address of the server's listener; without it that of the configuration")
	flags.StringVar(&f.Queue, "queue", "", "queue, which should have no other jobs; without it a new one")
	flags.StringVar(&f.secretFile, "secret-file", "",
		"file with Faktory's password, LMSTFY's token or Tarantool's USER:PASSWORD")
	flags.BoolVar(&f.speakTLS, "tls", false, "speak TLS to --addr; without --addr as configured")
	f.tls.add(cmd)
	flags.IntVar(&f.Producers, "producers", 8, "connections that push")
	flags.IntVar(&f.Workers, "workers", 8, "connections that fetch and acknowledge")
	flags.IntVar(&f.Batch, "batch", 1, "jobs that are pushed at once")
	flags.IntSliceVar(&f.Sizes, "size", []int{100}, "bytes of a job's body; several take turns")
	flags.Float64Var(&f.Rate, "rate", 0, "jobs pushed per second; 0 is as fast as the server answers")
	flags.DurationVar(&f.Duration, "duration", 10*time.Second,
		"how long jobs are pushed; with --count no limit unless given")
	flags.IntVar(&f.Count, "count", 0, "how many jobs are pushed; 0 is no limit")
	flags.IntVar(&f.InFlight, "in-flight", 4, "pushes that a producer may be ahead of the workers; 0 is no bound")
	flags.DurationVar(&f.Patience, "patience", 10*time.Second,
		"how long nothing may come until missing jobs are given up")
	flags.BoolVar(&f.Keep, "keep", false, "leave jobs that were not fetched in the queue, unchecked")
	flags.BoolVar(&f.ceiling, "ceiling", false, "do the same to a server that does nothing, for the ratio")
	flags.BoolVar(&f.asJSON, "json", false, "print a JSON object")
	flags.StringVar(&f.api.URL, "api", "", "web address used to look up the durability mode (default: the configured "+
		"one, unless --addr is set)")
	flags.StringVar(&f.dir, "fsync-dir", "", "directory in which an fsync is timed; without it that of temporary files")
	flags.StringVarP(&f.file, "config", "c", "",
		"TOML file of the server, to find its addresses ("+config.FileVariable+")")
	must(cmd.MarkFlagFilename("config", "toml"))
	must(cmd.MarkFlagDirname("fsync-dir"))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if f.Count > 0 && !flags.Changed("duration") {
			f.Duration = 0
		}
		if err := f.complete(p); err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		context.AfterFunc(ctx, stop) // the second signal ends the process
		return f.run(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	cmd.AddCommand(newCeilingCommand())
	return cmd
}

// addProtocol gives a command the flag that names a protocol.
func addProtocol(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVarP(name, "protocol", "p", bench.Masenko.Name, "protocol: "+strings.Join(bench.Names(), ", "))
	completes(cmd, "protocol", bench.Names())
}

// complete finds out what the command line leaves open.
func (f *benchFlags) complete(p Process) (err error) {
	if f.Protocol, err = bench.Find(f.protocol); err != nil {
		return fmt.Errorf("--protocol: %w", err)
	}
	if err := f.Check(); err != nil {
		return err
	}
	if f.ceiling && f.Rate > 0 {
		return errors.New("--ceiling measures the highest rate: omit --rate")
	}
	if f.ceiling && (f.Producers == 0 || f.Workers > 0 && f.InFlight == 0) {
		return errors.New("--ceiling needs producers, and a bound of --in-flight: what does nothing " +
			"delivers without end")
	}
	if f.secretFile != "" {
		text, err := os.ReadFile(f.secretFile)
		if err != nil {
			return fmt.Errorf("--secret-file: %w", err)
		}
		f.Secret = strings.TrimSpace(string(text))
	}
	if f.dir == "" {
		f.dir = os.TempDir()
	}
	if f.Queue == "" {
		f.Queue = fmt.Sprintf("bench-%08x", rand.Uint32()) //nolint:gosec // no secret
	}
	f.api.Token, f.api.Password = p.env(config.ClientTokenVariable), p.env(config.ClientPasswordVariable)
	trusting, err := f.tls.config(p)
	if err != nil {
		return err
	}
	f.api.TLS = trusting
	if f.speakTLS {
		f.TLS = trusting
	}
	if f.Addr != "" {
		return nil
	}
	cfg, err := p.serverConfig(f.file)
	if err != nil {
		return err
	}
	return f.configured(cfg, trusting)
}

// configured finds the server of this machine in its configuration.
func (f *benchFlags) configured(cfg *config.Config, trusting *tls.Config) error {
	if f.api.URL == "" {
		f.api.URL, _ = webURL(cfg.Listeners()) // without it the durability stays unknown,
		f.api.TLS = trusting.Clone()
		_ = pin(f.api.TLS, config.ProtocolWeb, cfg.Web.TLS) // and without this, too
	}
	l, err := protocolListener(cfg.Listeners(), f.Protocol.Listener())
	if err != nil {
		return err
	}
	f.Addr = l.Addr
	if l.TLS.Enabled() {
		f.TLS = trusting.Clone()
		return pin(f.TLS, f.Protocol.Listener(), l.TLS)
	}
	return nil
}

// protocolListener returns the first listener of a protocol, with the address by which its own machine reaches it.
func protocolListener(listeners []config.Listener, protocol string) (config.Listener, error) {
	i := slices.IndexFunc(listeners, func(l config.Listener) bool {
		return l.Key.Name == protocol+".addr" && l.Role == ""
	})
	if i < 0 {
		return config.Listener{}, fmt.Errorf("no listener of %s is configured: name the address with --addr", protocol)
	}
	l := listeners[i]
	host, port, err := net.SplitHostPort(l.Addr)
	if err != nil || port == "0" {
		return l, fmt.Errorf("the listener of %s is %s: name the address with --addr", protocol, l.Addr)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	l.Addr = net.JoinHostPort(host, port)
	return l, nil
}

// serverPatience is how long the server may take to tell about itself.
const serverPatience = 3 * time.Second

// run measures and prints what it found.
func (f *benchFlags) run(ctx context.Context, out, errOut io.Writer) error {
	machine, err := bench.ReadMachine(f.dir)
	if err != nil {
		return fail(err)
	}
	facts := benchReport{Machine: machine}
	if f.api.URL != "" {
		asking, cancel := context.WithTimeout(ctx, serverPatience)
		if s, err := bench.ReadServer(asking, f.api); err == nil && s.Version != "" {
			facts.Server = &s
		}
		cancel()
	}
	line := newBenchLine(errOut, f.Options)
	f.Progress = line.show
	if f.ceiling {
		if facts.Ceiling, err = runCeiling(ctx, f.Options); err != nil {
			line.clear()
			return fail(fmt.Errorf("the server that does nothing: %w", err))
		}
	}
	f.Linger = true
	facts.Result, err = bench.Run(ctx, f.Options)
	line.clear()
	if err != nil {
		return fail(err)
	}
	if f.asJSON {
		err = printJSON(out, facts)
	} else {
		err = facts.print(out)
	}
	if err == nil && facts.Lost > 0 {
		err = fmt.Errorf("%d jobs were acknowledged and never came", facts.Lost)
	}
	return fail(err)
}

// runCeiling measures a server that does nothing, which is this program in another process.
func runCeiling(ctx context.Context, o bench.Options) (*bench.Result, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	nothing := o.Nothing()
	cmd := exec.CommandContext(ctx, self, "bench", "ceiling", "--protocol", o.Protocol.Name, //nolint:gosec // this program
		"--size", fmt.Sprint(len(nothing.Body)), "--request-max", fmt.Sprint(nothing.RequestMax))
	stdin, err := cmd.StdinPipe() // it ends with this process, whatever that ends by
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer cmd.Wait()    //nolint:errcheck // it has done its duty
	defer stdin.Close() //nolint:errcheck // ends it
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, err
	}
	_, o.Addr, _ = strings.Cut(strings.TrimSpace(line), " ")
	o.Unchecked, o.Secret, o.TLS = true, "", nil
	return bench.Run(ctx, o)
}

func newCeilingCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ceiling",
		Short: "Serve a protocol without doing anything",
		Long: `Serve a protocol on a free port of loopback and answer everything with constants, without
doing anything, until standard input ends: what load reaches here is the limit that the
network, the scheduler and the load generator set to any server.`,
		Example: `  millrace bench ceiling --protocol faktory`,
		Args:    noArgs,
	}
	var name string
	addProtocol(cmd, &name)
	size := cmd.Flags().Int("size", 100, "bytes of the body of the job that it delivers")
	request := cmd.Flags().Int("request-max", 0, "bytes of the largest request; 0 is 64 KiB")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		p, err := bench.Find(name)
		if err != nil {
			return fmt.Errorf("--protocol: %w", err)
		}
		if *size < bench.SizeMin {
			return fmt.Errorf("--size: a body has at least %d bytes", bench.SizeMin)
		}
		return fail(serveNothing(cmd, p, bench.Nothing{Body: bench.Blank(*size), RequestMax: *request}))
	}
	return cmd
}

// serveNothing serves until standard input ends.
func serveNothing(cmd *cobra.Command, p *bench.Protocol, o bench.Nothing) error {
	var lc net.ListenConfig
	l, err := lc.Listen(cmd.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(cmd.OutOrStdout(), p.Name, l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
	go func() {
		_, _ = io.Copy(io.Discard, cmd.InOrStdin())
		_ = l.Close() // ends what follows
	}()
	return p.ServeNothing(l, o)
}
