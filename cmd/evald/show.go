package main

import (
	"io"
	"path/filepath"
	"strings"

	"github.com/evald/evald/cmd/evald/internal/diagram"
)

type showCmd struct {
	outFile
	Position string `arg:"" help:"Moves (44554; - is the empty board), rules and moves (9x5x4:4455), or Kaggle's observation as JSON."`
	Format   string `enum:"auto,text,svg,png" default:"auto" help:"Output: ${enum}. auto is svg or png by the extension of FILE, else text."`
	Numbers  bool   `help:"Number the stones in the order of play; for moves, and not in text."`
	Size     int    `range:"64 to 1024" default:"480" help:"Pixels of the picture's longer side."`
}

func (*showCmd) Help() string {
	return `A picture shows the board, the stones, the last move and a winning line, for light and dark backgrounds. An SVG has a
title and a description for screen readers. The service draws the same pictures at
/ui/position.svg?position=7x6x4:4455&numbers=1&size=480 and at /ui/position.png.`
}

func (c *showCmd) Run(s streams) error {
	d, err := diagram.Of(c.Position)
	if err != nil {
		return usage("%w", err)
	}
	d.Numbers = c.Numbers
	format := c.Format
	if format == "auto" {
		format = strings.TrimPrefix(strings.ToLower(filepath.Ext(c.Out)), ".")
	}
	draw := func(int) ([]byte, error) { return []byte(d.Text()), nil }
	switch format {
	case "svg":
		draw = d.SVG
	case "png":
		draw = d.PNG
	}
	picture, err := draw(c.Size)
	if err != nil {
		return err
	}
	if format == "png" && c.Out == "" && isTerminal(s.out) {
		return usage("--format png: a terminal shows no PNG; name a file with -o")
	}
	return c.write(s.out, func(out io.Writer) error {
		_, err := out.Write(picture)
		return err
	})
}
