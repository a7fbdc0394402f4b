package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/api"
	"millrace/internal/apiclient"
	"millrace/internal/config"
	"millrace/internal/server"
)

// apiFlags are the flags of the commands that ask a running server.
type apiFlags struct {
	p        Process
	file     string
	url      string
	token    string
	password string
	tls      tlsFlags
	asJSON   bool
}

// apiHelp ends the long help of those commands.
const apiHelp = `

The server is found in its configuration: --config, MILLRACE_CONFIG, or else the file of the packages,
/etc/millrace/millrace.toml, and the other variables of the server. That is enough on its own machine;
elsewhere name it with --api or MILLRACE_API.
If it asks for a login, give MILLRACE_API_TOKEN or MILLRACE_API_PASSWORD.

Exit status: 0 if it is done, 1 if the server refused, 2 if the command line is wrong,
4 if there is no such thing, 5 if the server does not answer.`

// addAPI gives a command the flags that say which server is meant.
func addAPI(cmd *cobra.Command, p Process) *apiFlags {
	f := &apiFlags{p: p}
	cmd.Long += apiHelp
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&f.asJSON, "json", false, "print JSON")
	flags.StringVar(&f.url, "api", "", "address of the server, such as http://127.0.0.1:7420 "+
		"("+config.ClientURLVariable+")")
	flags.StringVar(&f.token, "token", "", "bearer token; better in "+config.ClientTokenVariable+", where "+
		"others do not see it")
	flags.StringVar(&f.password, "password", "", "password; better in "+config.ClientPasswordVariable)
	f.tls.add(cmd)
	flags.StringVarP(&f.file, "config", "c", "",
		"TOML file of the server, to find its address ("+config.FileVariable+")")
	must(cmd.MarkFlagFilename("config", "toml"))
	return f
}

// env returns a variable of the environment.
func (p Process) env(name string) string {
	for _, entry := range slices.Backward(p.Environ) {
		if key, value, _ := strings.Cut(entry, "="); key == name {
			return value
		}
	}
	return ""
}

// client returns what asks the server.
func (f *apiFlags) client() (*apiclient.Client, error) {
	o := apiclient.Options{
		URL: orElse(f.url, f.p.env(config.ClientURLVariable)), Token: f.token, Password: f.password,
		Agent: "millrace/" + buildVersion().number,
	}
	if o.Token == "" && o.Password == "" {
		o.Token, o.Password = f.p.env(config.ClientTokenVariable), f.p.env(config.ClientPasswordVariable)
	}
	var err error
	if o.TLS, err = f.tls.config(f.p); err != nil {
		return nil, err
	}
	if o.URL == "" {
		if err := f.local(&o); err != nil {
			return nil, err
		}
	}
	c, err := apiclient.New(o)
	if err != nil {
		return nil, fmt.Errorf("--api: %w", err)
	}
	return c, nil
}

// ask asks the server something, and says what to do about an error.
func (f *apiFlags) ask(do func(c *apiclient.Client) error) error {
	c, err := f.client()
	if err != nil {
		return err
	}
	defer c.Close()
	return apiError(do(c))
}

func orElse(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// serverConfig reads the configuration of the server of this machine: that of the packages unless another is named.
func (p Process) serverConfig(file string) (*config.Config, error) {
	in := config.Input{File: file, Environ: p.Environ}
	if file == "" && p.env(config.FileVariable) == "" {
		packaged := orElse(p.Packaged, config.PackagedFile)
		if f, err := os.Open(packaged); err == nil { //nolint:gosec // its path is fixed; somebody who may not read it can still ask
			_ = f.Close()
			in.File = packaged
		}
	}
	return server.Settings().Load(in)
}

// local finds the server of this machine in its configuration, and how to log in there.
func (f *apiFlags) local(o *apiclient.Options) error {
	cfg, err := f.p.serverConfig(f.file)
	if err != nil {
		return fmt.Errorf(elsewhereHelp, err, config.ClientURLVariable)
	}
	if o.URL, err = webURL(cfg.Listeners()); err != nil {
		return fmt.Errorf("%w or %s", err, config.ClientURLVariable)
	}
	if o.Token == "" && o.Password == "" {
		o.Token, o.Password = cfg.Web.Token, cfg.Web.Password
	}
	return pin(o.TLS, config.ProtocolWeb, cfg.Web.TLS)
}

// apiError says what to do about an error of the client. Any other is one of usage, unless it is marked already.
func apiError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return fail(errors.New("interrupted"))
	}
	if _, failed := errors.AsType[*failure](err); failed {
		return err
	}
	if _, ok := errors.AsType[*apiclient.Unreachable](err); ok {
		return &failure{exitUnreachable, fmt.Errorf(unreachableHelp, err, config.ClientURLVariable)}
	}
	p, ok := errors.AsType[*api.Problem](err)
	if !ok {
		return err
	}
	text := orElse(p.Detail, p.Title)
	switch p.Status {
	case http.StatusUnauthorized:
		return fail(fmt.Errorf("the server asks for a login, and none was given or it is wrong: give %s or %s, or be "+
			"a user who may read %s",
			config.ClientTokenVariable, config.ClientPasswordVariable, config.PackagedFile))
	case http.StatusForbidden:
		return fail(fmt.Errorf("%s: log in with the operator's password or token (web.password, web.token)", text))
	case http.StatusNotFound:
		return &failure{exitNotFound, &refusal{text, err}}
	default:
		return fail(&refusal{text, err})
	}
}

// ofFlag tells what is wrong with a flag that the server would refuse: it is an error of usage.
func ofFlag(flag string, err error) error {
	if p, ok := errors.AsType[*api.Problem](err); ok {
		err = errors.New(p.Detail)
	}
	return fmt.Errorf("%s: %s", flag, strings.TrimPrefix(err.Error(), strings.TrimPrefix(flag, "--")+": "))
}

const unreachableHelp = `%w
Is the server running, and does it listen there? Start it with "millrace", or name its address with --api or %s`

const elsewhereHelp = `%w
To ask a server elsewhere, name its address with --api or %s`

// refusal shows the part of a problem that people want to read.
type refusal struct {
	text string
	err  error
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.err }

// interrupted returns a context that ends with the first signal.
func (p Process) interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.Signals == nil {
		return signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-p.Signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// completeTimeout bounds how long a shell waits for names.
const completeTimeout = 2 * time.Second

// completeQueues lets the shell complete names of queues. Without a server there are none.
func (f *apiFlags) completeQueues(namespace *string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
		defer cancel()
		c, err := f.client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer c.Close()
		page, err := c.Queues(ctx, api.QueueFilter{Namespace: *namespace, Name: begun}, api.PageOf{Limit: api.PageMax})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, q := range page.Queues {
			if strings.HasPrefix(q.Name, begun) && !slices.Contains(args, q.Name) {
				names = append(names, q.Name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
