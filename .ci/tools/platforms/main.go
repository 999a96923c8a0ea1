// Command platforms checks the types of the program and its tests for other systems, plain Go (CGO_ENABLED=0):
//
//	platforms darwin/arm64 windows/amd64
//
// Go itself would compile each module that is used, for each system. This reads the sources alone, and of other modules the
// declarations alone, so it takes seconds where that takes minutes.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	root, err := filepath.Abs("../..")
	if err != nil {
		fmt.Fprintln(os.Stderr, "platforms:", err)
		os.Exit(1)
	}
	failed := false
	for _, platform := range os.Args[1:] {
		errs := check(root, platform)
		for _, err := range errs {
			fmt.Fprintf(os.Stderr, "%s: %v\n", platform, err)
		}
		failed = failed || len(errs) > 0
	}
	if failed {
		os.Exit(1)
	}
}

// check returns what keeps the packages in root from being built for a platform, GOOS/GOARCH.
func check(root, platform string) []error {
	system, processor, _ := strings.Cut(platform, "/")
	all, err := packages.Load(&packages.Config{
		Mode: packages.LoadAllSyntax | packages.NeedModule,
		Dir:  root, Tests: true,
		Env: append(os.Environ(), "GOOS="+system, "GOARCH="+processor, "CGO_ENABLED=0", "GOFLAGS="), // not the tags of this system
		ParseFile: func(set *token.FileSet, name string, text []byte) (*ast.File, error) {
			f, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
			if f != nil && !strings.HasPrefix(name, root+string(filepath.Separator)) {
				withoutBodies(f)
			}
			return f, err
		},
	}, "./...")
	if err != nil {
		return []error{err}
	}
	var errs []error
	ours := 0
	packages.Visit(all, nil, func(p *packages.Package) {
		if p.Module == nil || !p.Module.Main || strings.HasSuffix(p.ID, ".test") { // .test: Go's own main around tests
			return
		}
		ours++
		for _, err := range p.Errors {
			errs = append(errs, err)
		}
	})
	if ours == 0 {
		errs = append(errs, fmt.Errorf("there are no packages in %s", root))
	}
	return errs
}

// withoutBodies removes what functions do and leaves what they are.
func withoutBodies(f *ast.File) {
	for _, d := range f.Decls {
		if function, ok := d.(*ast.FuncDecl); ok {
			function.Body = nil
		}
	}
}
