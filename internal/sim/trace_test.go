package sim

import (
	"fmt"
	"reflect"
	"strings"

	"millrace/internal/job"
)

// startTime is when every simulated world begins.
const startTime job.Time = 1_700_000_000_000_000

// show returns a command with the fields that are set.
func show(cmd job.Command) string { return showValue(reflect.ValueOf(cmd)) }

func showValue(v reflect.Value) string {
	switch v.Kind() { //nolint:exhaustive // all others print themselves
	case reflect.Pointer, reflect.Interface:
		return showValue(v.Elem())
	case reflect.Struct:
		var b strings.Builder
		b.WriteString(v.Type().Name() + "{")
		sep := ""
		for i := range v.NumField() {
			if f := v.Field(i); !f.IsZero() {
				fmt.Fprintf(&b, "%s%s:%s", sep, v.Type().Field(i).Name, showValue(f))
				sep = " "
			}
		}
		return b.String() + "}"
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return fmt.Sprintf("%q", v.Bytes())
		}
		var parts []string
		for i := range v.Len() {
			parts = append(parts, showValue(v.Index(i)))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case reflect.String:
		return fmt.Sprintf("%q", v.String())
	default:
		return fmt.Sprint(v.Interface())
	}
}

// showResult returns an answer as text.
func showResult(r job.Result) string {
	if r.Err != nil {
		return fmt.Sprintf("refusal %q", r.Err.Text)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "id=%d state=%s count=%d ids=%v", r.ID, r.State, r.Count, r.IDs)
	for i := range r.Jobs {
		b.WriteString("\n  " + Describe(&r.Jobs[i]))
	}
	return b.String()
}
