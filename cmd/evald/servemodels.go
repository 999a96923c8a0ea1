//go:build !first

package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evald/evald/cmd/evald/service"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/engine/solver"
	"github.com/evald/evald/models"
	"github.com/evald/evald/nn/open"
)

// modelSettings are the settings of served models. They are flags of evald serve, for all models, and fields of a model in the file of
// --models. A setting that is not given is nil.
type modelSettings struct {
	MaxBatch  *int            `name:"max-batch" range:"1 to 1048576" placeholder:"256" help:"Maximum number of rows of the batches that requests are merged into."`
	MaxDelay  *time.Duration  `name:"max-delay" range:"0s to 1m" placeholder:"1ms" help:"How long a request waits for others while the evaluator is busy."`
	MaxQueue  *int            `name:"max-queue" range:"1 to 1073741824" placeholder:"131072" help:"Maximum number of rows that wait, see kserve/README.md; further requests are refused."`
	MaxWait   []time.Duration `name:"max-wait" range:"0s to 24h" placeholder:"0s,0s,0s" help:"How long requests of priority 1, 2 and 3 wait for their first batch before they are refused; 0s: until their deadline."`
	InFlight  *int            `name:"in-flight" range:"1 to 1024" placeholder:"N" help:"Batches that are computed at once, on each GPU or else in all. Default: what suits the model."`
	Timeout   *time.Duration  `name:"timeout" range:"1ms to 24h" placeholder:"30s" help:"Time limit of a request; a request may set a shorter one."`
	Cache     *int            `name:"cache" range:"0 to 1073741824" placeholder:"0" help:"Number of answers that are cached for each network; 0 is none."`
	WarmUp    *int            `name:"warm-up" range:"0 to 1048576" placeholder:"0" help:"Rows that are evaluated before a model is ready."`
	Visits    *int            `name:"visits" range:"1 to 1073741824" placeholder:"${searchVisits}" help:"Visits of a search whose request names no number."`
	MaxVisits *int            `name:"max-visits" range:"1 to 1073741824" placeholder:"100000" help:"Maximum number of visits that a request may ask for."`
	Nodes     *int            `name:"nodes" range:"1 to 1000000000000" placeholder:"1000000" help:"Nodes that the model solver searches for a position if the request names no number."`
	MaxNodes  *int            `name:"max-nodes" range:"1 to 1000000000000" placeholder:"10000000" help:"Maximum number of nodes that a request may ask for."`
	Exact     *solver.Nodes   `name:"exact" help:"Answer a position exactly, with source solver, if a solver proves its result within ${exactNodes} nodes, or =NODES. A request may say otherwise."`
}

// onto overwrites s with the settings that are given.
func (m *modelSettings) onto(s *service.Settings) {
	for _, f := range []struct{ to, given *int }{
		{&s.MaxRows, m.MaxBatch},
		{&s.MaxQueued, m.MaxQueue},
		{&s.InFlight, m.InFlight},
		{&s.Cache, m.Cache},
		{&s.WarmUp, m.WarmUp},
		{&s.Visits, m.Visits},
		{&s.MaxVisits, m.MaxVisits},
		{&s.Nodes, m.Nodes},
		{&s.MaxNodes, m.MaxNodes},
	} {
		if f.given != nil {
			*f.to = *f.given
		}
	}
	for _, f := range []struct{ to, given *time.Duration }{{&s.MaxDelay, m.MaxDelay}, {&s.Timeout, m.Timeout}} {
		if f.given != nil {
			*f.to = *f.given
		}
	}
	if m.Exact != nil {
		s.Exact = max(0, *m.Exact)
	}
	if m.MaxWait != nil {
		copy(s.MaxWait[:], m.MaxWait)
	}
}

// settingsOf is the inverse of onto. No setting of the result is nil.
func settingsOf(s service.Settings) modelSettings {
	return modelSettings{
		&s.MaxRows, &s.MaxDelay, &s.MaxQueued, s.MaxWait[:], &s.InFlight, &s.Timeout, &s.Cache, &s.WarmUp, &s.Visits, &s.MaxVisits, &s.Nodes, &s.MaxNodes, &s.Exact,
	}
}

// modelSource finds and opens the models of evald serve.
type modelSource struct {
	*serveCmd
	options open.Options // has the callbacks for GPUs that fail or work again
	noted   func(string) // logs a text once
	where   string       // a phrase for the device of the model that was opened last, such as " on the GPU"
	books   func(game.Rules) solver.Book
}

// words lists the models, for messages. The models must be open.
func (s *modelSource) words(all []service.Model) string {
	var names []string
	for _, m := range all {
		names = append(names, m.Ref())
	}
	return strings.Join(names, ", ") + s.where
}

// modelSource returns the source of the models of the flags. It logs each note about models once. lost is GPULost of open.Options.
func (c *serveCmd) modelSource(log *slog.Logger, lost func(error)) (*modelSource, error) {
	books, err := c.books()
	if err != nil {
		return nil, fmt.Errorf("--book: %w", err)
	}
	said := map[string]bool{}
	event := linesToLog(log)
	note := func(text string) { // needs no lock: the Server loads one model at a time
		if !said[text] {
			said[text] = true
			event(text)
		}
	}
	o := options()
	o.Event, o.GPULost = event, lost
	return &modelSource{serveCmd: c, options: o, noted: note, books: books}, nil
}

// models reads the models of the command line, or of the file of --models as it is now.
func (s *modelSource) models() ([]service.Model, error) {
	var entries []*modelEntry
	for _, text := range s.Model {
		m, err := modelOf(text)
		if err != nil {
			return nil, err
		}
		entries = append(entries, m)
	}
	if s.Models != "" {
		var err error
		if entries, err = readModels(s.Models); err != nil {
			return nil, err
		}
	} else if entries == nil {
		entries = []*modelEntry{{}}
	}
	var all []service.Model
	first := map[string]*modelEntry{}
	cached := 0
	for _, m := range entries {
		one, version, err := s.model(m)
		if err != nil {
			return nil, err
		}
		id := one.Name + "@" + version
		if first[id] != nil {
			return nil, m.wrong("name", "two models are called %s, both of version %s", one.Name, version)
		}
		first[id] = m
		if cached += one.Cache; fitsMemory("cache", cached, eval.CacheEntry) != nil {
			return nil, m.wrong("cache", "%d: all caches together have %d answers, more than this machine has memory for", one.Cache, cached)
		}
		all = append(all, one)
	}
	return all, nil
}

// modelOf reads a value of --model: the name or file of a model, or NAME=PATH. In a folder, where KServe puts the files of a
// bucket, the model is the only file that can be a network.
func modelOf(text string) (*modelEntry, error) {
	name, path, named := strings.Cut(text, "=")
	if _, _, err := models.ParseRef(name); !named || err != nil || heuristic.Is(name) { // a "=" of a heuristic's parameter, or of a path
		return &modelEntry{File: text}, nil
	}
	m := &modelEntry{Name: name, File: path}
	files, err := os.ReadDir(path)
	if err != nil { // a file, or the name of a model, whose errors come later
		return m, nil
	}
	var found []string
	for _, f := range files {
		if kind := filepath.Ext(f.Name()); kind == ".onnx" || kind == ".safetensors" {
			found = append(found, f.Name())
		}
	}
	if len(found) != 1 {
		return nil, m.wrong("file", "%s has %d files of networks, must have one (.onnx or .safetensors), or name the file: %s", short.Quote(path), len(found), strings.Join(found, ", "))
	}
	m.File = filepath.Join(path, found[0])
	return m, nil
}

// settings returns all settings of a model whose own are given.
func (s *modelSource) settings(own modelSettings) service.Settings {
	settings := service.DefaultSettings
	settings.Timeout = service.DefaultLimits.Timeout
	own.onto(&settings)
	s.modelSettings.onto(&settings) // flags override the file
	return settings
}

// model converts an entry into a model of the service, and returns the current version of its network.
func (s *modelSource) model(m *modelEntry) (one service.Model, version string, err error) {
	one = service.Model{Name: m.Name, File: cmp.Or(m.File, m.Name), Backend: cmp.Or(m.Backend, open.Auto), Settings: s.settings(m.modelSettings)}
	if s.Backend != open.Auto {
		one.Backend = s.Backend
	}
	if one.Visits > one.MaxVisits {
		return one, "", m.wrong("visits", "%d: must be at most max-visits %d", one.Visits, one.MaxVisits)
	}
	if one.Nodes > one.MaxNodes {
		return one, "", m.wrong("nodes", "%d: must be at most max-nodes %d", one.Nodes, one.MaxNodes)
	}
	if _, pinned, err := models.ParseRef(m.Name); m.Name != "" && (err != nil || pinned > 0) {
		return one, "", m.wrong("name", "%s: must be letters, digits, dots, _ and -, beginning with a letter or digit", short.Quote(m.Name))
	}
	called, err := open.ParseName(one.File)
	if err != nil {
		return one, "", m.wrong("file", "%v", err)
	}
	if called.Sort == open.SortExact && one.Exact == 0 {
		one.Exact = solver.ProbeNodes
	}
	isHeuristic, ofFile := heuristic.Is(one.Backend), m.File
	if called.Sort == open.SortHeuristic && (!isHeuristic || m.Backend == "" && s.Backend == open.Auto) {
		one.Name, one.Backend = cmp.Or(m.Name, strings.NewReplacer(":", "-", "=", "-").Replace(called.String())), called.String()
		isHeuristic, ofFile = true, ""
	}
	switch {
	case called.Sort == open.SortSolver:
		if m.Backend != "" || m.Version > 0 {
			return one, "", m.wrong(map[bool]string{true: "backend", false: "version"}[m.Backend != ""], "the solver has none: leave it out")
		}
		one.Name, one.Backend, version = cmp.Or(m.Name, open.SolverModel), open.SolverModel, "1"
	case !isHeuristic && !slices.Contains(open.Backends(), one.Backend):
		return one, "", m.wrong("backend", "%s: must be %s, or a heuristic: %s", short.Quote(m.Backend), strings.Join(open.Backends(), ", "), strings.Join(heuristic.Names(), ", "))
	case called.Sort == open.SortExact && !isHeuristic:
		if m.Version > 0 || m.Name != "" && m.Name != open.ExactModel {
			return one, "", m.wrong("file", "%s is the network that ships, and has no other name or version here: write exact: %d for another model", open.ExactModel, solver.ProbeNodes)
		}
		one.Name, one.File = open.ExactModel, ""
		version = strconv.Itoa(storedModel(open.DefaultModel))
	case isHeuristic && ofFile != "":
		return one, "", m.wrong("file", "backend %s uses no model, but the file is %s", one.Backend, short.Quote(m.File))
	case isHeuristic:
		one.Name, one.File, version = cmp.Or(one.Name, one.Backend), "", "1"
		if m.Version > 0 {
			version = strconv.Itoa(m.Version)
			one.Version = version
		}
	case one.File == "" && m.Version == 0, m.File == "" && m.Version == 0 && one.Name == open.DefaultModel:
		// the shipped networks, and bitsquares on boards that they do not know
		one.Name, one.File = open.DefaultModel, ""
		version = strconv.Itoa(storedModel(open.DefaultModel))
	default:
		if version, err = s.find(m, &one); err != nil {
			return one, "", err
		}
	}
	if slices.Contains(open.Served(), one.Name) && one.Name != one.Backend {
		return one, "", m.wrong("name", "%s is the name of another model of every service: give this one another name", one.Name)
	}
	return one, version, nil
}

// find sets the name, version and file of a network, as far as the entry leaves them open.
func (s *modelSource) find(m *modelEntry, one *service.Model) (version string, err error) {
	if one.File == "" {
		return "", m.wrong("version", "%d: of which model? Give a name or a file", m.Version)
	}
	base, pinned, _ := models.ParseRef(one.File)
	have := storedModel(one.File)
	switch {
	case have > 0 && m.Version > 0 && pinned == 0:
		pinned, one.File = m.Version, fmt.Sprintf("%s@%d", base, m.Version)
		if have = storedModel(one.File); have == 0 {
			return "", m.wrong("version", "%d: there is no such version of %s; evald model list shows those that there are", m.Version, base)
		}
	case have > 0 && m.Version > 0 && m.Version != pinned:
		return "", m.wrong("version", "%d: the file is %s, which has version %d", m.Version, one.File, pinned)
	case have == 0:
		pinned, base = m.Version, strings.TrimSuffix(filepath.Base(one.File), filepath.Ext(one.File))
		if name, err := open.ParseName(one.File); err == nil && name.Sort == open.SortService {
			base = name.Label()
		} else if _, err := os.Stat(one.File); err != nil && m.path != "" { // the error of --model appears when the model is opened
			_, _, err := open.Any(one.File)
			return "", m.wrong(map[bool]string{true: "file", false: "name"}[m.File != ""], "%v", err)
		}
		have = cmp.Or(m.Version, 1)
	}
	base, _, _ = strings.Cut(base, "@")
	if one.Name = cmp.Or(one.Name, base); pinned > 0 {
		one.Version = strconv.Itoa(pinned)
	}
	return strconv.Itoa(have), nil
}

// storedModel returns the current version of a shipped or stored model, or 0 if there is no such model.
func storedModel(ref string) int {
	if e, ok := models.Find(ref); ok {
		return e.Version
	}
	if store, err := models.UserStore(); err == nil {
		if e, ok, err := store.Find(ref); ok && err == nil {
			return e.Version
		}
	}
	return 0
}

// load opens a configured model, or one that a client asks for. A client's text is only looked up as a name, never opened as a path.
func (s *modelSource) load(m service.Model) (service.Loaded, error) {
	if m.Backend == open.SolverModel {
		return service.NewSolver(s.books, solversAtOnce()), nil
	}
	from := backend{Backend: m.Backend, Model: m.File}
	if m.Backend == "" {
		from.Backend, from.Model = s.Backend, m.Ref()
		if m.Name == open.SolverModel {
			return service.Loaded{}, errNoModel
		}
		if heuristic.Is(from.Model) {
			from = backend{Backend: from.Model} // without GPUs
		} else if _, ok, err := open.Find(from.Model); err != nil || !ok {
			return service.Loaded{}, cmp.Or(err, errNoModel)
		} else if heuristic.Is(from.Backend) {
			from.Backend = open.Auto
		}
	}
	if s.Backend != open.Auto || open.UsesGPUs(from.Backend) {
		from.GPUs = s.GPUs
	}
	from.CPUPath, from.ORT = s.CPUPath, s.ORT
	options := s.options
	options.Note = s.noted
	e, err := from.open(options)
	if err != nil {
		return service.Loaded{}, err
	}
	l := service.Loaded{
		Backend: e.Backend(), Close: e.Close, Version: cmp.Or(m.Version, strconv.Itoa(max(1, e.Version))),
		Platform: service.HeuristicPlatform, Describe: e.How, NoGPU: e.NoGPU, InFlight: max(2, runtime.GOMAXPROCS(0)),
	}
	if e.Network {
		l.Platform, l.InFlight = service.NetworkPlatform, 2 // one batch already uses all cores
	}
	if s.where = ""; e.OnGPU {
		s.where = " on the GPU"
	} else if m.Backend == open.Auto && e.Network && !isRemote(m.File) {
		s.where = " on the CPU, no GPU"
	}
	if e.OnGPU {
		l.Devices = func() (all []service.Device) {
			for _, d := range e.Devices() {
				all = append(all, service.Device{Index: d.Index, Working: d.Working, Lost: d.Lost, Rows: d.Rows, Launches: d.Launches, Faults: d.Faults, Busy: d.Busy})
			}
			return all
		}
		l.InFlight = 4 // the GPU computes two or three of them while the results of others are read
	}
	return l, nil
}

// solversAtOnce is the default number of positions that the solver searches at once.
func solversAtOnce() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// bytes returns the memory that a model takes. A client's text is only looked up as a name, never opened as a path.
func (s *modelSource) bytes(m service.Model) (int64, error) {
	if m.Backend == open.SolverModel {
		return int64(cmp.Or(m.InFlight, solversAtOnce())) * service.SolverBytes, nil
	}
	if heuristic.Is(cmp.Or(m.Backend, m.Name)) || isRemote(m.File) {
		return 0, nil
	}
	refs := []string{cmp.Or(m.File, m.Ref())}
	if m.File == "" && m.Backend != "" {
		refs = []string{open.DefaultModel, open.AnyModel}
	}
	var all int64
	for _, ref := range refs {
		e, ok, err := open.Lookup(ref)
		switch {
		case ok && e.Config == "", !ok && m.Backend != "": // a file
			e, _, err = open.Any(ref)
		case !ok:
			err = cmp.Or(err, errNoModel)
		}
		if err != nil {
			return 0, err
		}
		bytes, err := e.Bytes()
		if err != nil {
			return 0, err
		}
		all += bytes
	}
	return all, nil
}

var errNoModel = errors.New("there is no model of that name")

// changed returns a value that is different once the model's file has changed.
func (s *modelSource) changed(m service.Model) (any, error) {
	ref := cmp.Or(m.File, m.Ref())
	if heuristic.Is(cmp.Or(m.Backend, m.Name)) || m.Backend == open.SolverModel || m.Backend != "" && m.File == "" || isRemote(m.File) {
		return nil, nil
	}
	if version := storedModel(ref); version > 0 {
		return version, nil
	}
	if m.Backend == "" { // a client's name, which must not be opened as a path
		return nil, errNoModel
	}
	info, err := os.Stat(ref)
	if err != nil {
		return nil, err
	}
	type state struct {
		at, described time.Time
		size          int64
	}
	now := state{at: info.ModTime(), size: info.Size()}
	if beside, err := os.Stat(open.DescriptionFile(ref)); err == nil {
		now.described = beside.ModTime()
	}
	return now, nil
}
