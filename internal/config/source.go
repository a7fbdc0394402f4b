package config

import "strconv"

// Layer is one of the places a value can come from. A higher one wins.
type Layer uint8

// The layers, lowest first.
const (
	LayerDefault  Layer = iota // the table
	LayerFile                  // the TOML file
	LayerOriginal              // a variable of the server that a protocol comes from
	LayerEnv                   // a MILLRACE_ variable
	LayerFlag                  // the command line
)

// Source says where a value came from.
type Source struct {
	Layer Layer
	// Name is the path of the file, the name of the variable or the flag.
	Name string
	// Line is the line in the file.
	Line int
}

// String returns the source the way an operator would look for it, for example
// "millrace.toml:3", "MILLRACE_DATA_DIR" or "--data-dir".
func (s Source) String() string {
	switch s.Layer {
	case LayerDefault:
		return "default"
	case LayerFile:
		return s.Name + ":" + strconv.Itoa(s.Line)
	case LayerOriginal, LayerEnv, LayerFlag:
	}
	return s.Name
}
