package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/models"
	"github.com/evald/evald/nn/encoding"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/open"
)

type modelCmd struct {
	List   modelListCmd   `cmd:"" help:"List the shipped models and those of the store: $EVALD_MODELS, or evald/models in your data folder."`
	Show   modelShowCmd   `cmd:"" help:"Show what a model is."`
	Import modelImportCmd `cmd:"" help:"Check a safetensors or ONNX file, and store it as the next version of its name."`
	Export modelExportCmd `cmd:"" help:"Write a model as ONNX or safetensors."`
	Int8   modelInt8Cmd   `cmd:"" name:"int8" help:"Make a copy of a model that is partly computed with 8 bits, which is faster on processors, and report the changes."`
	Remove modelRemoveCmd `cmd:"" help:"Remove one version of a model, or all versions, from the store."`
	Verify modelVerifyCmd `cmd:"" help:"Compare checksums, and evaluate a few positions with each model."`
}

// modelInfo is a model as --json writes it.
type modelInfo struct {
	models.Entry
	Path       string            `json:"path,omitempty"` // empty for shipped models
	Parameters int               `json:"parameters,omitempty"`
	Bytes      int               `json:"bytes,omitempty"`
	Metadata   map[string]string `json:"metadata,omitempty"` // of the file
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

type modelListCmd struct {
	JSON bool `help:"Write JSON instead of a table."`
}

// Run lists all models that can be read. Its error names the others.
func (c *modelListCmd) Run(s streams) error {
	all, wrong := allModels()
	if c.JSON {
		return errors.Join(writeJSON(s.out, all), wrong)
	}
	t := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "model\tconfig\ttrained on\tcreated\twhere")
	for _, m := range all {
		created := "-"
		if !m.Created.IsZero() {
			created = m.Created.Format(time.DateOnly)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", m.Ref(), m.Config, trainedOn(m.Entry, mostNamed), created, cmp.Or(m.Path, "shipped"))
	}
	return errors.Join(t.Flush(), wrong)
}

// trainedOn lists the games that a model was trained on, or only their number if they are more than most.
func trainedOn(e models.Entry, most int) string {
	switch n := len(e.Rules); {
	case n == 0:
		return "nothing"
	case n > most:
		return fmt.Sprintf("%d games", n)
	}
	return strings.Join(e.Rules, ", ")
}

// mostNamed is the maximum number of games that trainedOn lists in a line of output.
const mostNamed = 4

// allModels returns the shipped models and those of the store. Its error names the models of the store that cannot be read.
func allModels() ([]modelInfo, error) {
	var all []modelInfo
	for _, e := range models.List() {
		all = append(all, modelInfo{Entry: e})
	}
	store, err := models.UserStore()
	if err != nil {
		return all, err
	}
	entries, err := store.List()
	for _, e := range entries {
		all = append(all, modelInfo{Entry: e, Path: store.Path(e)})
	}
	return all, err
}

type modelShowCmd struct {
	Model string `arg:"" name:"NAME|PATH" help:"A name of evald model list, NAME@VERSION, or a safetensors or ONNX file."`
	JSON  bool   `help:"Write JSON instead of lines."`
}

func (c *modelShowCmd) Run(s streams) error {
	m, n, err := open.Any(c.Model)
	if err != nil {
		return err
	}
	metadata := n.Metadata()
	info := modelInfo{m.Entry, m.Path, n.Parameters(), len(m.Content), metadata}
	if c.JSON {
		return writeJSON(s.out, info)
	}
	t := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(t, "%s\t%s\n", name, value)
		}
	}
	line("name", m.Name)
	if m.Version > 0 {
		line("version", strconv.Itoa(m.Version))
	}
	if m.Version > 0 || len(m.Rules) > 0 {
		line("trained on", trainedOn(m.Entry, len(m.Rules)))
		line("for", strings.Join(m.Range, ", "))
	}
	for _, l := range n.About() {
		line(l[0], l[1])
	}
	line("parameters", strconv.Itoa(info.Parameters))
	line("bytes", strconv.Itoa(info.Bytes))
	line("sha256", m.SHA256)
	if !m.Created.IsZero() {
		line("created", m.Created.Format(time.RFC3339))
	}
	line("note", m.Note)
	line("file", m.Path)
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		if key == net.RangesKey || key == encoding.MetadataKey {
			continue // thousands of numbers, or already shown
		}
		line(key, strconv.Quote(metadata[key]))
	}
	return t.Flush()
}

type modelImportCmd struct {
	File  string   `arg:"" type:"path" help:"A safetensors file of evald or of nn/net/torch_model.py, or an ONNX file of any program with its description beside it in NAME.yaml (go doc ./nn/encoding)."`
	Name  string   `help:"Its name: letters, digits, dots, _ and -. Default: evald.name in the file's metadata, or the name of the file."`
	Rules []string `placeholder:"7x6x4" help:"The games that it was trained on. Default: evald.rules in the file's metadata, which evald train writes. Without either it counts as untrained."`
	Note  string   `help:"A sentence about it. Default: evald.note in the file's metadata."`
}

func (c *modelImportCmd) Run(ctx context.Context, s streams) error {
	content, n, err := open.File(c.File)
	if err != nil {
		return err
	}
	e, err := c.entry(n)
	if err != nil {
		return err
	}
	if err := n.Check(ctx, e.Name, e.Rules, options()); err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	store, err := models.UserStore()
	if err != nil {
		return err
	}
	stored, added, err := store.Add(e, content)
	switch {
	case err != nil:
		return err
	case !added:
		fmt.Fprintf(s.out, "%s is the same network already: nothing was added\n", stored.Ref())
	default:
		fmt.Fprintf(s.out, "%s: %s, trained on %s, in %s\n", stored.Ref(), stored.Config, trainedOn(stored, mostNamed), store.Path(stored))
	}
	return nil
}

func (c *modelImportCmd) entry(n open.Network) (models.Entry, error) {
	base := filepath.Base(c.File)
	metadata := n.Metadata()
	e := models.Entry{
		Name: cmp.Or(c.Name, metadata["evald.name"], strings.TrimSuffix(base, filepath.Ext(base))), File: n.File(), Config: n.Config(),
		Note: cmp.Or(c.Note, metadata["evald.note"]), Rules: c.Rules, Created: time.Now().UTC().Truncate(time.Second),
	}
	from := "--rules"
	if len(e.Rules) == 0 {
		e.Rules, from = n.Rules(), "metadata of "+c.File+" (--rules replaces it)"
	}
	if only := n.Only(); only != "" && len(e.Rules) > 0 && !slices.Equal(e.Rules, []string{only}) {
		return e, usage("%s: rules %s: %s knows %s alone", from, strings.Join(e.Rules, ","), n.What(), only)
	}
	for _, rules := range e.Rules {
		if _, err := game.ParseRules(rules); err != nil {
			return e, usage("%s: %w", from, err)
		}
	}
	e.Trained = len(e.Rules) > 0
	e.Range = n.Range()
	if _, err := game.ParseRanges(e.Range); err != nil {
		return e, fmt.Errorf("%s: metadata evald.range: %w", c.File, err)
	}
	switch _, version, err := models.ParseRef(e.Name); {
	case err != nil:
		return e, fmt.Errorf("%w: give another one with --name", err)
	case version != 0:
		return e, fmt.Errorf("model name %q: the store counts versions itself: leave @%d out", e.Name, version)
	}
	if slices.Contains(open.Reserved(), e.Name) {
		return e, fmt.Errorf("model name %q means something else, as do %s: give another one with --name", e.Name, strings.Join(open.Reserved(), ", "))
	}
	if _, shipped := models.Find(e.Name); shipped {
		return e, fmt.Errorf("model name %q is that of a shipped model, which would be found first: give another one with --name", e.Name)
	}
	return e, nil
}

type modelExportCmd struct {
	Model string `arg:"" name:"NAME|PATH" help:"A name of evald model list, NAME@VERSION, or a safetensors or ONNX file."`
	Out   string `short:"o" aliases:"output" required:"" type:"path" placeholder:"F.onnx|F.safetensors" help:"The file; its extension selects the format."`
	FP16  bool   `name:"fp16" help:"Write ONNX whose tower computes with 16-bit numbers and whose heads with 32, for ONNX Runtime on GPUs. Outputs differ by up to 0.003."`
}

func (c *modelExportCmd) Run(s streams) error {
	extension := strings.ToLower(filepath.Ext(c.Out))
	if extension != ".onnx" && extension != ".safetensors" {
		return usage("-o %s: want a name that ends in .onnx or .safetensors", c.Out)
	}
	if c.FP16 && extension != ".onnx" {
		return usage("--fp16 with -o %s: only ONNX files can have it: want a name that ends in .onnx", c.Out)
	}
	m, n, err := open.Any(c.Model)
	if err != nil {
		return err
	}
	if c.FP16 && n.Halves() != nil {
		return usage("--fp16: %s is %s, %w: leave it out", m.Label(), n.What(), n.Halves())
	}
	content, form := m.Content, "ONNX"
	switch own := filepath.Ext(n.File()); {
	case extension == own && !c.FP16: // the same bytes, so the same checksum
		if form = own[1:]; form == n.Config() {
			form = "it is"
		}
	case extension != ".onnx":
		return usage("-o %s: %s is %s, and can only be exported as %s", c.Out, m.Label(), n.What(), own)
	default:
		metadata := n.Metadata()
		if metadata["evald.name"] == "" || m.Version > 0 {
			metadata["evald.name"] = m.Name
		}
		if m.Version > 0 {
			metadata["evald.version"], metadata["evald.rules"] = strconv.Itoa(m.Version), strings.Join(m.Rules, ",")
		}
		if content, err = n.ONNX(m.Name, c.FP16); err != nil {
			return err
		}
	}
	if err := durable.WriteFile(c.Out, content); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "%s: %s as %s, %d bytes, in %s\n", m.Label(), n.Config(), form, len(content), c.Out)
	return err
}

type modelRemoveCmd struct {
	Model string `arg:"" name:"NAME[@VERSION]" help:"A name of evald model list: with a version only that one, else all versions. Programs that have already loaded it keep it."`
}

func (c *modelRemoveCmd) Run(s streams) error {
	store, err := models.UserStore()
	if err != nil {
		return err
	}
	removed, err := store.Remove(c.Model)
	if _, shipped := models.Find(c.Model); err != nil && shipped {
		return fmt.Errorf("model %q is part of the program and cannot be removed; those of the store can: evald model list", c.Model)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "%s: removed, %d bytes\n", strings.Join(removed.Refs, ", "), removed.Bytes)
	return err
}

type modelVerifyCmd struct {
	Models []string `arg:"" optional:"" name:"NAME|PATH" help:"The models. Default: all of evald model list."`
}

func (c *modelVerifyCmd) Run(ctx context.Context, s streams) error {
	refs, failed := c.Models, false
	if len(refs) == 0 {
		all, wrong := allModels()
		for _, m := range all {
			refs = append(refs, m.Ref())
		}
		if failed = wrong != nil; failed {
			fmt.Fprintf(s.out, "FAILED  %v\n", wrong)
		}
	}
	for _, ref := range refs {
		m, n, err := open.Any(ref)
		if err == nil {
			err = n.Check(ctx, m.Label(), m.Rules, options())
		}
		if err != nil {
			failed = true
			fmt.Fprintf(s.out, "FAILED  %s: %s\n", short.Text(ref), short.To(err.Error(), mostSaid))
			continue
		}
		fmt.Fprintf(s.out, "ok      %s  sha256 %s\n", ref, m.SHA256)
	}
	if failed {
		return errors.New("some models are damaged")
	}
	return nil
}
