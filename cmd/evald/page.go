//go:build !first

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/evald/evald/cmd/evald/internal/standalone"
	"github.com/evald/evald/cmd/evald/internal/web"
	"github.com/evald/evald/models"
	"github.com/evald/evald/nn/open"
)

type pageCmd struct {
	Out    string `short:"o" aliases:"output" type:"path" required:"" placeholder:"DIR" help:"The folder to write to. It is made if it is missing; files of an earlier version that are needed no more stay."`
	Engine string `type:"path" placeholder:"DIR" help:"Folder with the engine for browsers (evald.wasm.gz and wasm_exec.js). Default: the one in this program, which programs of a release have."`
}

func (*pageCmd) Help() string {
	return `The page of evald serve as files, which any server of files offers under any address. The engine and a small network
compute in the visitor's browser; after the first visit the page works without a network connection. make page builds
the engine too.`
}

func (c *pageCmd) Run(ctx context.Context, s streams) error {
	engine, err := standalone.ReadEngine(c.Engine)
	if err != nil {
		return err
	}
	whole, _, err := models.Open(open.FastModel)
	if err != nil {
		return err
	}
	small, err := standalone.Shrink(ctx, whole, standalone.Games)
	if err != nil {
		return err
	}
	files, err := web.Folder(ctx, engine, map[string][]byte{standalone.Small: small, standalone.Whole: whole})
	if err != nil {
		return err
	}
	for name, content := range files {
		path := filepath.Join(c.Out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		err := outFile{Out: path}.write(nil, func(out io.Writer) error {
			_, err := out.Write(content)
			return err
		})
		if err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(s.out, "%s: %d files\n", c.Out, len(files))
	return err
}
