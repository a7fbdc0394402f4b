package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// envPrefix begins the name of every environment variable.
const envPrefix = "MILLRACE_"

// Kind says what the value of a key looks like.
type Kind uint8

// The kinds of value.
const (
	KindString    Kind = iota // any text
	KindPath                  // a file or directory
	KindBool                  // true or false
	KindInt                   // a whole number
	KindDuration              // a Go duration such as 1.5s
	KindSize                  // a number of bytes such as 64MiB
	KindChoice                // one of Key.Choices
	KindAddresses             // host:port, several separated by commas, or off
)

var kindNames = [...]string{
	KindString: "string", KindPath: "path", KindBool: "bool", KindInt: "int", KindDuration: "duration",
	KindSize: "size", KindChoice: "choice", KindAddresses: "address",
}

// String returns the kind's name as help texts show it.
func (k Kind) String() string { return kindNames[k] }

// Key is one row of the table.
type Key struct {
	Name    string // dotted, as in the file
	Default string
	Doc     string // one or more sentences
	Kind    Kind
	Choices []string // KindChoice
	Secret  bool     // masked wherever it is shown
	Live    bool     // a running server takes it over when it reads its configuration again

	set   func(*Config, string) error
	value func(*Config) any // what set has set; nil for a key that only says where another has its value from
}

// Env returns the name of the key's environment variable.
func (k Key) Env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(k.Name, ".", "_"))
}

// Flag returns the name of the key's flag, without the dashes.
func (k Key) Flag() string {
	return strings.NewReplacer(".", "-", "_", "-").Replace(k.Name)
}

// section returns the table of the file that the key is in, and its name there.
func (k Key) section() (table, name string) {
	i := strings.LastIndexByte(k.Name, '.')
	return k.Name[:i], k.Name[i+1:]
}

// howToSet names the key in its three forms, for messages.
func (k Key) howToSet() string {
	return fmt.Sprintf("%s (%s, --%s)", k.Name, k.Env(), k.Flag())
}

func stringKey(name, def, doc string, at func(*Config) *string) Key {
	return Key{
		Name: name, Default: def, Doc: doc, Kind: KindString, value: valueAt(at),
		set: func(c *Config, text string) error {
			*at(c) = text
			return nil
		},
	}
}

// valueAt returns what reads a value.
func valueAt[T any](at func(*Config) *T) func(*Config) any {
	return func(c *Config) any { return *at(c) }
}

func pathKey(name, def, doc string, at func(*Config) *string) Key {
	k := stringKey(name, def, doc, at)
	k.Kind = KindPath
	if def == "" {
		return k
	}
	set := k.set
	k.set = func(c *Config, text string) error {
		if text == "" {
			return fmt.Errorf("the path is empty: name one, for example %q", def)
		}
		return set(c, text)
	}
	return k
}

// Roles of listeners: metrics over HTTP, and a protocol's own admin API over HTTP. Another role is the name of a wire
// protocol.
const (
	RoleMetrics = "metrics"
	RoleAdmin   = "admin"
)

// defaultNamespace is where a listener's jobs are unless told otherwise.
const defaultNamespace = "default"

func namespaceKey(name, doc string, at func(*Config) *string) Key {
	k := stringKey(name, defaultNamespace, doc, at)
	set := k.set
	k.set = func(c *Config, text string) error {
		if err := checkNamespace(text); err != nil {
			return err
		}
		return set(c, text)
	}
	return k
}

// hostsKey is a list of host names, of which the first part may be a star.
func hostsKey(name, doc string, at func(*Config) *[]string) Key {
	return NamesKey(name, doc, checkHostName, at)
}

// checkHostName refuses what no browser would send as the name of a host.
func checkHostName(name string) error {
	rest := strings.TrimPrefix(name, "*.")
	if _, err := netip.ParseAddr(name); err == nil {
		return nil
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(rest, "."), ".") {
		if label == "" || strings.Trim(strings.ToLower(label), "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return fmt.Errorf(`%q is not a host name: write jobs.internal or *.example.org, without a port`, name)
		}
	}
	return nil
}

func boolKey(name, doc string, at func(*Config) *bool) Key {
	return Key{
		Name: name, Default: "false", Doc: doc, Kind: KindBool, value: valueAt(at),
		set: func(c *Config, text string) error {
			switch strings.ToLower(text) {
			case "true", "1", "yes", "on":
				*at(c) = true
			case "false", "0", "no", "off":
				*at(c) = false
			default:
				return fmt.Errorf("%q is neither true nor false", text)
			}
			return nil
		},
	}
}

// limits are the least and the greatest value of a key, both allowed.
type limits[T int | uint64 | time.Duration] struct{ least, most T }

func intKey[T number](name string, def int, lim limits[int], doc string, at func(*Config) *T) Key {
	return Key{
		Name: name, Default: strconv.Itoa(def), Doc: doc, Kind: KindInt, value: valueAt(at),
		set: func(c *Config, text string) error {
			n, err := strconv.Atoi(text)
			if err != nil {
				return fmt.Errorf("%q is not a whole number", text)
			}
			if n < lim.least || n > lim.most {
				return fmt.Errorf("%d is out of range: choose %d to %d", n, lim.least, lim.most)
			}
			*at(c) = T(n)
			return nil
		},
	}
}

func durationKey(name, def string, lim limits[time.Duration], doc string, at func(*Config) *time.Duration) Key {
	return Key{
		Name: name, Default: def, Doc: doc, Kind: KindDuration, value: valueAt(at),
		set: func(c *Config, text string) error {
			d, err := time.ParseDuration(text)
			if err != nil {
				return fmt.Errorf("%q is not a duration: write a number with a unit (ms, s, m, h), for example %q",
					text,
					def)
			}
			if d < lim.least || d > lim.most {
				return fmt.Errorf("%s is out of range: choose %s to %s", d, lim.least, lim.most)
			}
			*at(c) = d
			return nil
		},
	}
}

func sizeKey[T number](name, def string, lim limits[uint64], doc string, at func(*Config) *T) Key {
	return Key{
		Name: name, Default: def, Doc: doc, Kind: KindSize, value: valueAt(at),
		set: func(c *Config, text string) error {
			n, err := parseSize(text)
			if err != nil {
				return err
			}
			if n < lim.least || n > lim.most {
				return fmt.Errorf("%s is out of range: choose %s to %s", text, formatSize(lim.least),
					formatSize(lim.most))
			}
			*at(c) = T(n)
			return nil
		},
	}
}

func choiceKey(name, def string, choices []string, doc string, at func(*Config) *string) Key {
	return Key{
		Name: name, Default: def, Doc: doc, Kind: KindChoice, Choices: choices, value: valueAt(at),
		set: func(c *Config, text string) error {
			if !slices.Contains(choices, text) {
				return fmt.Errorf("%q is not one of %s%s", text, strings.Join(choices, ", "), didYouMean(text, choices))
			}
			*at(c) = text
			return nil
		},
	}
}

func addressesKey(name, def, doc string, at func(*Config) *Addresses) Key {
	return Key{
		Name: name, Default: def, Doc: doc, Kind: KindAddresses, value: valueAt(at),
		set: func(c *Config, text string) error {
			list, err := parseAddresses(text)
			if err != nil {
				return err
			}
			*at(c) = list
			return nil
		},
	}
}

// SecretSuffix is appended to the name of a secret to name the key that says
// which file holds it.
const SecretSuffix = "_file"

// secretKeys returns the key of a secret and its companion, which names a file to
// read the secret from so that it need not stand in the environment.
func secretKeys(name, doc string, at func(*Config) *string) []Key {
	return parsedSecretKeys(name, doc, at, func(text string) (string, error) { return text, nil })
}

// parsedSecretKeys does the same for a secret that is parsed.
func parsedSecretKeys[T any](name, doc string, at func(*Config) *T, parse func(string) (T, error)) []Key {
	set := func(c *Config, text string) (err error) {
		*at(c), err = parse(text)
		return err
	}
	secret := Key{Name: name, Doc: doc, Kind: KindString, Secret: true, value: valueAt(at), set: set}
	file := Key{
		Name: name + SecretSuffix, Kind: KindPath,
		Doc: "File to read " + name + " from; a trailing newline is ignored.",
		set: func(c *Config, path string) error {
			if path == "" {
				return nil
			}
			text, err := readSecret(path)
			if err != nil {
				return err
			}
			return set(c, text)
		},
	}
	return []Key{secret, file}
}

// parseAccounts reads user:password entries. What is wrong is not quoted: it may be a
// password.
func parseAccounts(text string) (map[string]string, error) {
	entries := strings.Fields(text)
	if len(entries) == 0 {
		return nil, nil
	}
	accounts := make(map[string]string, len(entries))
	for i, entry := range entries {
		user, password, ok := strings.Cut(entry, ":")
		if !ok || user == "" || password == "" {
			return nil, fmt.Errorf("entry %d is not user:password", i+1)
		}
		accounts[user] = password
	}
	return accounts, nil
}

// WithoutNamespace has a key refuse addresses with a namespace.
func WithoutNamespace(k Key) Key {
	set := k.set
	k.set = func(c *Config, text string) error {
		if strings.ContainsRune(text, '=') {
			return errors.New(`the namespace is in the path of a request, not with the address: leave "=" and what follows out`)
		}
		return set(c, text)
	}
	return k
}
