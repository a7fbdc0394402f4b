package server

import (
	"fmt"

	"millrace/internal/dialect"
	"millrace/internal/operator"
)

// adopt returns what reads the lines of a migration to a protocol: the dialect of the namespace, or the first there is.
func (s *server) adopt(protocol, namespace string) (func(line []byte) (operator.Arrived, error), error) {
	for _, d := range s.dialects {
		adopter, ok := d.figures.(dialect.Adopter)
		if !ok || d.protocol != protocol || namespace != "" && d.namespace != namespace {
			continue
		}
		return func(line []byte) (operator.Arrived, error) {
			a, err := dialect.ReadArrival(line)
			if err != nil {
				return operator.Arrived{}, err
			}
			if a.State == dialect.StateGone {
				return operator.Arrived{ID: a.ID, Gone: true}, nil
			}
			cmd, lost, err := adopter.Adopt(&a)
			return operator.Arrived{ID: a.ID, Cmd: cmd, Lost: lost}, err
		}, nil
	}
	if namespace != "" {
		return nil, fmt.Errorf("%q is not served in the namespace %q", protocol, namespace)
	}
	return nil, fmt.Errorf("%q is not served: give it an address in the configuration", protocol)
}
