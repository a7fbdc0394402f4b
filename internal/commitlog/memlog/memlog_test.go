package memlog_test

import (
	"errors"
	"testing"

	"millrace/internal/commitlog"
	"millrace/internal/commitlog/logtest"
	"millrace/internal/commitlog/memlog"
	"millrace/internal/store"
)

func TestLog(t *testing.T) {
	t.Parallel()
	logtest.Run(t, func(_ testing.TB, mode commitlog.Mode) logtest.Open {
		l := memlog.New(mode, 3)
		return func(from, safe uint64, visit commitlog.Visit) (commitlog.Log, error) {
			if err := l.Open(from, safe, visit); err != nil {
				return nil, err
			}
			return l, nil
		}
	})
}

// TestCrash loses the power: what was synced stays, and some others. What was read afterwards stays for good, as on
// a disk.
func TestCrash(t *testing.T) {
	t.Parallel()
	for _, m := range logtest.Modes {
		for keep := range 4 {
			l := memlog.New(m.Mode, 1)
			count := func() (n int) {
				t.Helper()
				if err := l.Open(6, 0, func(number uint64, content []byte) error {
					n++
					if want := []byte{byte(number)}; string(want) != string(content) {
						t.Errorf("record %d is %q", number, content)
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				return n
			}
			if err := l.Open(1, 0, nil); err != nil {
				t.Fatal(err)
			}
			for n := range byte(9) {
				if err := logtest.Append(l, uint64(n)+1, []byte{n + 1}); err != nil {
					t.Fatal(err)
				}
				if n == 6 {
					if err := l.Sync(); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := l.Trim(5); err != nil {
				t.Fatal(err)
			}
			want := 2 + min(keep, 2)
			if m.Mode == commitlog.Fsync {
				want = 4
			}
			l.Crash(keep)
			if err := logtest.Append(l, 1, nil); !errors.Is(err, store.ErrClosed) {
				t.Errorf("a log without power takes a record: %v", err)
			}
			if got := count(); got != want {
				t.Errorf("%s: %d of 4 records are left with %d kept, want %d", m.Name, got, keep, want)
			}
			l.Crash(0)
			if got := count(); got != want {
				t.Errorf("%s: of %d records that were read %d are left", m.Name, want, got)
			}
		}
	}
}

// TestCrashOfTrimmed loses the power when nothing is left that was synced.
func TestCrashOfTrimmed(t *testing.T) {
	t.Parallel()
	l := memlog.New(commitlog.None, 1)
	if err := l.Open(1, 0, nil); err != nil {
		t.Fatal(err)
	}
	for n := range uint64(6) {
		if err := logtest.Append(l, n+1, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Trim(4); err != nil {
		t.Fatal(err)
	}
	l.Crash(0)
	if err := l.Open(5, 0, func(number uint64, _ []byte) error {
		t.Errorf("record %d is still there", number)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := logtest.Append(l, 5, nil); err != nil {
		t.Error(err)
	}
}
