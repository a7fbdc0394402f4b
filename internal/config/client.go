package config

import "strings"

// The variables of the commands that ask a running server. They configure no server, which passes over them.
const (
	ClientURLVariable      = clientPrefix            // its address
	ClientTokenVariable    = clientPrefix + "_TOKEN" // a bearer token
	ClientPasswordVariable = clientPrefix + "_PASSWORD"
	ClientCAVariable       = clientPrefix + "_CA" // a PEM file with the authorities to trust

	clientPrefix = envPrefix + "API"
)

// JobVariablePrefix begins the variables in which a command that works on a job finds what it is about. Such a
// command may well be this program.
const JobVariablePrefix = envPrefix + "JOB_"

func isClientVariable(name string) bool {
	return name == clientPrefix || strings.HasPrefix(name, clientPrefix+"_") ||
		strings.HasPrefix(name, JobVariablePrefix)
}
