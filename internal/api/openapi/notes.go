package openapi

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// notes are what the source says about types.
type notes struct {
	types  map[string]string   // comments of types
	fields map[string]string   // comments of fields, by type and field with a dot between
	values map[string][]string // the constants of a type of texts, in their order
}

func (n *notes) field(of, name string) string { return n.fields[of+"."+name] }

// readNotes reads the Go files of some directories. Of two types of one name the later one counts.
func readNotes(tree fs.FS, dirs []string) (*notes, error) {
	n := &notes{make(map[string]string), make(map[string]string), make(map[string][]string)}
	for _, dir := range dirs {
		files, err := fs.Glob(tree, dir+"/*.go")
		if err != nil {
			return nil, err
		}
		for _, name := range files {
			text, err := fs.ReadFile(tree, name)
			if err != nil {
				return nil, err
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
			if err != nil {
				return nil, fmt.Errorf("read the comments of types: %w", err)
			}
			for _, decl := range file.Decls {
				if d, ok := decl.(*ast.GenDecl); ok {
					n.read(d)
				}
			}
		}
	}
	return n, nil
}

func (n *notes) read(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			doc := s.Doc
			if doc == nil {
				doc = d.Doc
			}
			n.types[s.Name.Name] = sentence(doc.Text())
			if fields, ok := s.Type.(*ast.StructType); ok {
				n.readFields(s.Name.Name, fields)
			}
		case *ast.ValueSpec:
			of, isNamed := s.Type.(*ast.Ident)
			if d.Tok != token.CONST || !isNamed {
				continue
			}
			for _, v := range s.Values {
				if text, ok := v.(*ast.BasicLit); ok && text.Kind == token.STRING {
					value, _ := strconv.Unquote(text.Value) // the parser has read it
					n.values[of.Name] = append(n.values[of.Name], value)
				}
			}
		}
	}
}

func (n *notes) readFields(of string, s *ast.StructType) {
	for _, f := range s.Fields.List {
		comment := f.Doc
		if comment == nil {
			comment = f.Comment
		}
		for _, name := range f.Names {
			n.fields[of+"."+name.Name] = sentence(comment.Text())
		}
	}
}

// sentence makes one line of a comment, which may be no more than the end of a sentence.
func sentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if text == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(text)
	text = string(unicode.ToUpper(first)) + text[size:]
	if !strings.ContainsAny(text[len(text)-1:], ".!?") {
		text += "."
	}
	return text
}
