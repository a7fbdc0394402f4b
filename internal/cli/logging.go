package cli

import (
	"io"
	"log/slog"
	"os"

	"millrace/internal/config"
)

// serverLog is the log of a server. Its level can be changed while the server runs.
type serverLog struct {
	*slog.Logger
	level *slog.LevelVar
}

// newLogger returns the logger that the configuration asks for.
func newLogger(w io.Writer, c config.Log) serverLog {
	log := serverLog{level: new(slog.LevelVar)}
	log.setLevel(c.Level)
	o := &slog.HandlerOptions{Level: log.level}
	if c.Format == "text" || c.Format == "auto" && isTerminal(w) {
		log.Logger = slog.New(slog.NewTextHandler(w, o))
	} else {
		log.Logger = slog.New(slog.NewJSONHandler(w, o))
	}
	return log
}

func (l serverLog) setLevel(name string) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(name)); err != nil {
		panic("cli: log level " + name + " passed the configuration") // it allows only levels
	}
	l.level.Set(level)
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
