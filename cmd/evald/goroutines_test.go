package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// harmless are goroutines and callbacks of calls of the library that need not recover: file and
// function, and why.
var harmless = map[string]string{
	"engine/jobs/jobs.go Do":                   "help is join, whose run recovers",
	"engine/jobs/jobs.go release":              "help is join, whose run recovers",
	"engine/jobs/jobs.go Finishing":            "cancels a context",
	"engine/mcts/scheduler.go NewScheduler":    "calls Run of a fault.Group",
	"engine/mcts/search.go hire":               "run recovers by a function of its own",
	"nn/gpu/trial.go Trial":                    "is a process of its own, whose end the library reports",
	"nn/gpu/tune.go ask":                       "writes to a process and waits for it",
	"nn/ort/session.go newSlot":                "waits for the end of a context",
	"kernels/cuda/driver/worker.go Start":      "calls functions of nn/gpu, which recover",
	"engine/queue/batcher.go dispatch":         "run recovers by a function of its own; ring decides as every caller does",
	"cmd/evald/internal/library/pipe.go Serve": "answers by call, which recovers",
	// A match has the names of levels from package play. No call plays on a terminal.
	"cmd/evald/internal/play/model.go start":               "is of a terminal",
	"cmd/evald/internal/play/model.go Close":               "is of a terminal",
	"cmd/evald/internal/stream/reader.go newInterruptible": "is of commands",
}

// Every goroutine that a call of the library can start recovers, because a panic in another one
// ends the process of another program. The test finds all places that start one in the packages of
// the library. The function that is started, or one in the same package that it names, refers to
// package fault, perhaps a call deeper; or the place is in harmless, with the reason.
func TestGoroutinesRecover(t *testing.T) {
	out, err := exec.Command("go", "list", "-tags", "gpu", "-deps", "-f", "{{.ImportPath}} {{.Dir}}", module+"cmd/evald/internal/library").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	found, used := 0, map[string]bool{}
	for line := range strings.Lines(string(out)) {
		pkg, ours := strings.CutPrefix(strings.Fields(line)[0], module)
		if !ours || pkg == "engine/fault" {
			continue
		}
		folder := strings.Fields(line)[1]
		files, functions := sources(t, folder)
		for name, file := range files {
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Body == nil {
					continue
				}
				ast.Inspect(f.Body, func(n ast.Node) bool {
					started := starts(n)
					if started == nil {
						return true
					}
					found++
					place := pkg + "/" + name + " " + f.Name.Name
					if used[place] = true; harmless[place] == "" && !recovers(started, functions) && !group(n, f, files) {
						t.Errorf("%s starts a goroutine or a callback that does not recover: use engine/fault, or give the reason in harmless", place)
					}
					return true
				})
			}
		}
	}
	if found < 15 {
		t.Errorf("%d places start goroutines: does the test still find them?", found)
	}
	for place := range harmless {
		if !used[place] {
			t.Errorf("%s starts no goroutine any more: take it from harmless", place)
		}
	}
}

// sources parses a package without its tests, and returns its files and functions by name.
func sources(t *testing.T, folder string) (files map[string]*ast.File, functions map[string][]*ast.FuncDecl) {
	files, functions = map[string]*ast.File{}, map[string][]*ast.FuncDecl{}
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(path)] = file
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				functions[f.Name.Name] = append(functions[f.Name.Name], f)
			}
		}
	}
	return files, functions
}

// starts returns what a node calls in another goroutine: go f(), x.Go(f), AfterFunc(x, f); or nil.
func starts(n ast.Node) ast.Expr {
	switch n := n.(type) {
	case *ast.GoStmt:
		return n.Call.Fun
	case *ast.CallExpr:
		if s, ok := n.Fun.(*ast.SelectorExpr); ok && (s.Sel.Name == "Go" && len(n.Args) == 1 || s.Sel.Name == "AfterFunc") {
			return n.Args[len(n.Args)-1]
		}
	}
	return nil
}

// recovers reports whether a function refers to package fault, or calls a function of its package
// that does or calls one.
func recovers(f ast.Expr, functions map[string][]*ast.FuncDecl) (found bool) {
	var look func(n ast.Node, deeper int)
	look = func(n ast.Node, deeper int) {
		ast.Inspect(n, func(n ast.Node) bool {
			name, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			found = found || name.Name == "fault"
			for _, called := range functions[name.Name] {
				if !found && deeper > 0 {
					look(called.Body, deeper-1)
				}
			}
			return true
		})
	}
	look(f, 2)
	return found
}

// group reports whether a node calls Go or Run of a fault.Group that its function or a struct of
// its package declares.
func group(n ast.Node, in *ast.FuncDecl, files map[string]*ast.File) (found bool) {
	c, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	of := c.Fun.(*ast.SelectorExpr).X
	if s, ok := of.(*ast.SelectorExpr); ok {
		of = s.Sel
	}
	name, ok := of.(*ast.Ident)
	if !ok {
		return false
	}
	declares := func(names []*ast.Ident, kind ast.Expr) {
		s, ok := kind.(*ast.SelectorExpr)
		if !ok || s.Sel.Name != "Group" {
			return
		}
		for _, declared := range names {
			found = found || declared.Name == name.Name
		}
	}
	look := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			declares(n.Names, n.Type)
		case *ast.ValueSpec:
			declares(n.Names, n.Type)
		}
		return true
	}
	ast.Inspect(in, look)
	for _, file := range files {
		for _, d := range file.Decls {
			if d, ok := d.(*ast.GenDecl); ok {
				ast.Inspect(d, look)
			}
		}
	}
	return found
}
