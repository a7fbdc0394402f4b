package config

import (
	"regexp"
	"strings"
)

// serviceLinkPattern matches the variables that Kubernetes puts into every
// container for each service; a service called millrace would otherwise stop the
// server with unknown variables.
var serviceLinkPattern = regexp.MustCompile(
	`^[A-Z0-9_]+_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

func isServiceLink(name, value string) bool {
	if strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://") {
		return true
	}
	return serviceLinkPattern.MatchString(name)
}
