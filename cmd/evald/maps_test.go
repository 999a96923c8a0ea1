package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
)

// A package of more than eight files names them all in its documentation, so that its reader knows where to begin. name_*.go
// stands for the forms of a file for several systems.
func TestMaps(t *testing.T) {
	folders := map[string][]string{}
	for _, path := range files(t, ".go") {
		if !strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "testdata") {
			folders[filepath.Dir(path)] = append(folders[filepath.Dir(path)], path)
		}
	}
	maps := 0
	for folder, paths := range folders {
		if len(paths) <= 8 {
			continue
		}
		maps++
		doc := documentation(t, paths)
		for _, path := range paths {
			name := filepath.Base(path)
			family, _, _ := strings.Cut(name, "_")
			if name != "doc.go" && !strings.Contains(doc, name) && !strings.Contains(doc, family+"_*.go") {
				t.Errorf("the documentation of package %s does not say where %s belongs", folder, name)
			}
		}
	}
	if maps < 10 {
		t.Errorf("only %d packages have more than eight files", maps)
	}
}

// documentation is the documentation of the package of some files.
func documentation(t *testing.T, paths []string) string {
	t.Helper()
	var doc strings.Builder
	for _, path := range paths {
		file := gametest.Must(parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly|parser.ParseComments))(t)
		if ast.IsGenerated(file) {
			continue
		}
		doc.WriteString(file.Doc.Text())
	}
	return doc.String()
}
