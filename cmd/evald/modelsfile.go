//go:build !first

package main

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/evald/evald/cmd/evald/service"
	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/engine/solver"
	"github.com/evald/evald/nn/open"
)

// modelEntry is one model of the file of --models, or of --model, which sets only File:
//
//	models:
//	  - name: mine       # in requests; default: the name of the file
//	    version: 3       # default: the newest that is stored
//	    file: mine       # what --model takes; default: the model of that name
//	    backend: cpu
//	    max-batch: 64    # and the other modelSettings
type modelEntry struct {
	Name    string `name:"name"`
	Version int    `name:"version" range:"1 to 1073741824"`
	File    string `name:"file"`
	Backend string `name:"backend"`
	modelSettings

	path  string         // of the file of --models; empty for --model
	index int            // position in the file, from 0
	lines map[string]int // line numbers of the fields that the file sets
}

// wrong returns an error that names a field and its line.
func (m *modelEntry) wrong(field, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if m.path == "" {
		flag := "model"
		if field == "visits" || field == "nodes" || field == "cache" {
			flag = field
		}
		return usage("--%s: %s", flag, text)
	}
	return fmt.Errorf("%s:%d: models[%d].%s: %s", m.path, cmp.Or(m.lines[field], m.lines[""]), m.index, short.Text(field), text)
}

// readModels reads the file of --models. The error gives its line and the field.
func readModels(path string) ([]*modelEntry, error) {
	text, err := durable.ReadFile(path, durable.MostSettings)
	if err != nil {
		return nil, fmt.Errorf("--models: %w", err)
	}
	var document yaml.Node
	if err := decodeYAML(path, text, &document); err != nil {
		return nil, err
	}
	var all []*modelEntry
	top := func(name string, key, value *yaml.Node) error {
		if name != "models" {
			return fmt.Errorf("%s:%d: %s: there is no such field; the file has models", path, key.Line, short.Text(name))
		}
		if value.Kind != yaml.SequenceNode {
			return fmt.Errorf("%s:%d: models: must be a list", path, value.Line)
		}
		for i, n := range value.Content {
			m := &modelEntry{path: path, index: i, lines: map[string]int{"": n.Line}}
			if err := fields(path, fmt.Sprintf("models[%d]", i), n, m.set); err != nil {
				return err
			}
			all = append(all, m)
		}
		return nil
	}
	if len(document.Content) > 0 {
		if err := fields(path, "the file", document.Content[0], top); err != nil {
			return nil, err
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s:1: models: has no model; write\nmodels:\n  - name: default", path)
	}
	return all, nil
}

// fields calls set for each field of a mapping. A repeated field is an error.
func fields(path, what string, n *yaml.Node, set func(name string, key, value *yaml.Node) error) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: %s: must have fields, such as name: mine", path, n.Line, what)
	}
	lines := map[string]int{}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		if line, twice := lines[key.Value]; twice {
			return fmt.Errorf("%s:%d: %s: %s: is in line %d already", path, key.Line, what, short.Text(key.Value), line)
		}
		lines[key.Value] = key.Line
		if err := set(key.Value, key, value); err != nil {
			return err
		}
	}
	return nil
}

// musts describes the values that fields of each type accept, for errors.
var musts = map[reflect.Type]string{
	reflect.TypeFor[int]():             "a whole number",
	reflect.TypeFor[solver.Nodes]():    fmt.Sprintf("a number of nodes up to %d, true or false", solver.MostNodes),
	reflect.TypeFor[time.Duration]():   "a time such as 10ms",
	reflect.TypeFor[string]():          "a text",
	reflect.TypeFor[[]time.Duration](): "three times such as [50ms, 1s, 0s]",
}

// set reads one field of a model.
func (m *modelEntry) set(name string, key, value *yaml.Node) error {
	m.lines[name] = key.Line
	to, f := m.field(name)
	if !to.IsValid() {
		return m.wrong(name, "there is no such field; see kserve/README.md")
	}
	if to.Kind() == reflect.Pointer {
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
	}
	must, r := musts[to.Type()], f.Tag.Get("range")
	if r != "" {
		must += ", " + r
	}
	bad := value.Kind == yaml.MappingNode || value.Decode(to.Addr().Interface()) != nil || value.Tag == "!!null" || to.Kind() == reflect.String && to.Len() == 0
	if !bad && r != "" {
		all := elements(to)
		bad = to.Kind() == reflect.Slice && len(all) != 3 || slices.ContainsFunc(all, func(v reflect.Value) bool { return !inRange(v, r) })
	}
	if bad {
		return m.wrong(name, "%s: must be %s", short.Quote(value.Value), must)
	}
	return nil
}

// field returns the field with a name in the file, or the zero Value if there is none.
func (m *modelEntry) field(name string) (reflect.Value, reflect.StructField) {
	v := reflect.ValueOf(m).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		if f.Tag.Get("name") == name && name != "" {
			return v.FieldByIndex(f.Index), f
		}
	}
	return reflect.Value{}, reflect.StructField{}
}

// appendModels appends models as a file of --models that sets all fields.
func appendModels(text []byte, all []service.Model) []byte {
	text = append(text, "models:\n"...)
	for _, m := range all {
		entry := modelEntry{Name: m.Name, File: m.File, Backend: m.Backend, modelSettings: settingsOf(m.Settings)}
		entry.Version, _ = strconv.Atoi(m.Version)
		dash := "-"
		v := reflect.ValueOf(entry)
		for _, f := range reflect.VisibleFields(v.Type()) {
			name, value := f.Tag.Get("name"), v.FieldByIndex(f.Index)
			if value.Kind() == reflect.Pointer {
				value = value.Elem()
			}
			if f.Anonymous || name == "" || value.IsZero() && (value.Kind() == reflect.String || name == "version" || name == "in-flight") || name == "backend" && m.Backend == open.SolverModel {
				continue
			}
			text = fmt.Appendf(text, "  %s %s: ", dash, name)
			dash = " "
			switch x := value.Interface().(type) {
			case string:
				text = strconv.AppendQuote(text, x)
			case []time.Duration:
				text = fmt.Appendf(text, "[%v, %v, %v]", x[0], x[1], x[2])
			default:
				text = fmt.Append(text, x)
			}
			text = append(text, '\n')
		}
	}
	return text
}
