package config

import (
	"fmt"
	"strings"
	"time"
)

// What protocols make their keys of. Each is as the function of the same name that the rest of the table uses.

// AddressesKey is where something listens.
func AddressesKey(name, def, doc string, at func(*Config) *Addresses) Key {
	return addressesKey(name, def, doc, at)
}

// BoolKey is true or false, at first false.
func BoolKey(name, doc string, at func(*Config) *bool) Key { return boolKey(name, doc, at) }

// ChoiceKey is one of several words.
func ChoiceKey(name, def string, choices []string, doc string, at func(*Config) *string) Key {
	return choiceKey(name, def, choices, doc, at)
}

// PathKey is a file or directory.
func PathKey(name, def, doc string, at func(*Config) *string) Key { return pathKey(name, def, doc, at) }

// DurationKey is a time between two others.
func DurationKey(name, def string, least, most time.Duration, doc string, at func(*Config) *time.Duration) Key {
	return durationKey(name, def, limits[time.Duration]{least, most}, doc, at)
}

// number is what a setting of a protocol may be kept in.
type number interface {
	int | uint16 | uint32 | uint64
}

// IntKey is a whole number between two others.
func IntKey[T number](name string, def, least, most int, doc string, at func(*Config) *T) Key {
	return intKey(name, def, limits[int]{least, most}, doc, at)
}

// SizeKey is a number of bytes between two others.
func SizeKey[T number](name, def string, least, most uint64, doc string, at func(*Config) *T) Key {
	return sizeKey(name, def, limits[uint64]{least, most}, doc, at)
}

// SecretKeys are a secret and the key that names its file.
func SecretKeys(name, doc string, at func(*Config) *string) []Key { return secretKeys(name, doc, at) }

// AccountsKeys are the same for passwords by user, as user:password.
func AccountsKeys(name, doc string, at func(*Config) *map[string]string) []Key {
	return parsedSecretKeys(name, doc, at, parseAccounts)
}

// Parsed has a key take what parse makes of its text.
func Parsed(k Key, parse func(text string) (string, error)) Key {
	set := k.set
	k.set = func(c *Config, text string) error {
		text, err := parse(text)
		if err != nil {
			return err
		}
		return set(c, text)
	}
	return k
}

// secondsMax is the longest time of a key whose protocol counts seconds in 32 bits.
const secondsMax = (1<<32 - 1) * time.Second

// SecondsKey is a time in whole seconds, for protocols that have no others.
func SecondsKey(name, def, doc string, at func(*Config) *uint32) Key {
	k := Key{Name: name, Default: def, Doc: doc, Kind: KindDuration, value: valueAt(at)}
	k.set = func(c *Config, text string) error {
		var d time.Duration
		parse := durationKey(name, def, limits[time.Duration]{0, secondsMax}, doc,
			func(*Config) *time.Duration { return &d })
		if err := parse.set(c, text); err != nil {
			return err
		}
		if d%time.Second != 0 {
			return fmt.Errorf("%s is not a whole number of seconds", d)
		}
		*at(c) = uint32(d / time.Second) //nolint:gosec // secondsMax bounds it
		return nil
	}
	return k
}

// NamesKey is a list of names, separated by commas, each of which check allows.
func NamesKey(name, doc string, check func(string) error, at func(*Config) *[]string) Key {
	return Key{Name: name, Doc: doc, Kind: KindString, value: valueAt(at), set: func(c *Config, text string) error {
		*at(c) = nil
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item == "" {
				continue
			}
			if err := check(item); err != nil {
				return err
			}
			*at(c) = append(*at(c), item)
		}
		return nil
	}}
}
