package cli

import (
	"io"
	"log/slog"
	"os"

	"millrace/internal/config"
)

// newLogger returns the logger that the configuration asks for.
func newLogger(w io.Writer, c config.Log) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		panic("cli: log level " + c.Level + " passed the configuration") // it allows only levels
	}
	o := &slog.HandlerOptions{Level: level}
	if c.Format == "text" || c.Format == "auto" && isTerminal(w) {
		return slog.New(slog.NewTextHandler(w, o))
	}
	return slog.New(slog.NewJSONHandler(w, o))
}

// isTerminal reports whether somebody may be looking. The null device counts as
// a terminal too; nobody is there to tell the difference.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
