package sim

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"millrace/internal/job"
)

// shrinkBudget bounds how many runs a failure is worth.
const shrinkBudget = 3000

// shrinker looks for a shorter run that fails in the same way.
type shrinker struct {
	settings settings
	best     []action
	err      error
	tries    int
}

func shrink(s settings, failed []action, err error) ([]action, error) {
	s.every, s.checks = 1, 1
	k := &shrinker{settings: s, best: failed, err: err}
	k.drop()
	k.simplify()
	k.drop()
	return k.best, k.err
}

// try keeps a candidate if it fails.
func (k *shrinker) try(candidate []action) bool {
	if k.tries++; k.tries > shrinkBudget {
		return false
	}
	trace, err := execute(k.settings, replay(candidate))
	if err == nil || kind(err) != kind(k.err) {
		return false
	}
	k.best, k.err = trace, err
	return true
}

// kind says in which way a run failed: what comes before the first detail.
func kind(err error) string {
	if inv := invariant.FindString(err.Error()); inv != "" {
		return inv
	}
	k, _, _ := strings.Cut(err.Error(), ":")
	k, _, _ = strings.Cut(k, "{")
	return digits.ReplaceAllString(k, "")
}

var (
	invariant = regexp.MustCompile("INV-[0-9]+")
	digits    = regexp.MustCompile("[0-9]+")
)

// drop removes ever smaller pieces.
func (k *shrinker) drop() {
	for size := max(len(k.best)/2, 1); size >= 1; size /= 2 {
		for at := 0; at < len(k.best); {
			end := min(at+size, len(k.best))
			if !k.try(slices.Concat(k.best[:at], k.best[end:])) {
				at = end
			}
		}
	}
}

// simplify takes away what the remaining actions need not have. A push that only
// keeps ids as they are becomes one of no interest.
func (k *shrinker) simplify() {
	filler := &job.Push{Spec: job.Spec{Namespace: "z", Queue: "z"}}
	for i := range k.best {
		if i >= len(k.best) {
			break // it fails earlier now
		}
		with := func(change func(*action)) bool {
			candidate := slices.Clone(k.best)
			change(&candidate[i])
			return k.try(candidate)
		}
		if k.best[i].pass != 0 {
			with(func(a *action) { a.pass = 0 })
		}
		if i < len(k.best) && (k.best[i].seal || k.best[i].later) {
			with(func(a *action) { a.seal, a.later = false, false })
		}
		if i >= len(k.best) || k.best[i].cmd == nil || with(func(a *action) { a.cmd = filler }) {
			continue
		}
		k.zero(reflect.ValueOf(k.best[i].cmd).Elem())
	}
}

// zero empties, one after the other, the fields that are not needed to fail.
func (k *shrinker) zero(v reflect.Value) {
	attempt := func(field, value reflect.Value) bool {
		old := reflect.New(field.Type()).Elem()
		old.Set(field)
		field.Set(value)
		if k.try(slices.Clone(k.best)) {
			return true
		}
		field.Set(old)
		return false
	}
	switch v.Kind() { //nolint:exhaustive // nothing else has parts
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if f := v.Field(i); !f.IsZero() && name != "Namespace" && name != "Queue" &&
				!attempt(f, reflect.Zero(f.Type())) {
				k.zero(f)
			}
		}
	case reflect.Slice:
		for i := 0; i < v.Len() && v.Type().Elem().Kind() != reflect.Uint8; {
			without := reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v.Slice(0, i))
			if attempt(v, reflect.AppendSlice(without, v.Slice(i+1, v.Len()))) {
				continue
			}
			k.zero(v.Index(i))
			i++
		}
	case reflect.Interface, reflect.Pointer:
		if !v.IsNil() {
			k.zero(v.Elem())
		}
	default:
	}
}
