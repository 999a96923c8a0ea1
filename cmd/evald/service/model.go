package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/fault"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/queue"
	"github.com/evald/evald/engine/short"
)

// model is one generation of a served model. A reload makes another generation, which shares stats and cache with the previous one.
// References are counted: the repository holds the models that it serves, and each request the one that it began with. The last release
// closes the model.
type model struct {
	Loaded
	Settings
	name, ref string
	searches  bool            // whether it is the model "search", a copy of the first model that shares its references
	config    Model           // the Model from which it was loaded
	changed   any             // Config.Changed when it was loaded; written with the Server's loading and models.mu locked
	inFlight  int             // maximum number of concurrent batches
	lost      []Device        // GPUs that earlier generations have lost: a reload neither mends nor hides them
	evaluator *eval.Evaluator // for rows of requests and leaves of searches
	batcher   *queue.Batcher  // its backend: the queue of the rows
	bytes     int64           // memory reserved in the budget
	cache     *eval.Cache     // nil: no cache
	stats     *stats
	holders   *atomic.Int64
	end       func()
}

// hold adds a reference. The model must already have one.
func (m *model) hold() { m.holders.Add(1) }

// release removes a reference. It closes the model in the background, because a GPU frees memory slowly.
func (m *model) release() {
	switch n := m.holders.Add(-1); {
	case n == 0:
		go m.end()
	case n < 0:
		panic("service: a model is released twice by one holder")
	}
}

// wanted checks and returns the requested outputs, or all outputs if none is requested. A partial request may also have the output error.
func (m *model) wanted(names []string, partial bool) ([]string, error) {
	all := m.outputs()
	if partial {
		all = append(slices.Clip(all), errorOutput)
	}
	if len(names) == 0 {
		return all, nil
	}
	for i, name := range names {
		if !slices.Contains(all, name) {
			return nil, invalid("output %q: must be one of %v for model %s", name, all, m.name)
		}
		if slices.Contains(names[:i], name) {
			return nil, invalid("output %q: is requested twice", name)
		}
	}
	return names, nil
}

func (m *model) outputs() []string {
	switch {
	case m.searches:
		return searchedOutputs
	case m.solves():
		return solvedOutputs
	}
	return evaluatedOutputs
}

func (m *model) solves() bool { return m.Platform == SolverPlatform && !m.searches }

// devices returns the GPUs that compute for the model.
func (l *Loaded) devices() []Device {
	if l.Devices == nil {
		return nil
	}
	return l.Devices()
}

// devicesAndLost returns these GPUs, and those that earlier generations have lost.
func (m *model) devicesAndLost() []Device {
	all := slices.Clone(m.devices())
	for _, lost := range m.lost {
		if !slices.ContainsFunc(all, func(d Device) bool { return d.Index == lost.Index }) {
			all = append(all, lost)
		}
	}
	return all
}

// searching returns the model "search", which evaluates its leaves with another model.
func (s *Server) searching(with *model) *model {
	m := *with
	m.name, m.ref, m.searches, m.stats = searchModel, searchModel, true, s.searched
	return &m
}

// prepare loads a model and warms it up. If old is not nil, the result is its next generation. The caller holds a reference to old, and the
// Server's loading.
func (s *Server) prepare(want Model, old *model) (*model, error) {
	m := &model{name: want.Name, ref: want.Ref(), config: want, Settings: want.Settings, stats: new(stats), holders: new(atomic.Int64)}
	if old != nil {
		m.stats = old.stats
		m.lost = slices.DeleteFunc(old.devicesAndLost(), func(d Device) bool { return !d.Lost })
	}
	var err error
	if m.changed, err = s.changed(want); err != nil {
		return nil, err
	}
	if s.config.Bytes != nil {
		if m.bytes, err = s.config.Bytes(want); err != nil {
			return nil, err
		}
	}
	read, err := s.memory.reserve(m.bytes, LeastMemory(s.config.Limits.Body))
	if err != nil {
		if old != nil {
			err = fmt.Errorf("%w (the one that is served keeps its %d MiB until then: unload it, or give the service more memory)", err, old.bytes>>20)
		}
		return nil, err
	}
	defer read()
	if m.Loaded, err = s.config.Load(want); err != nil {
		s.memory.release(m.bytes)
		return nil, err
	}
	m.inFlight = cmp.Or(m.Loaded.InFlight, 2)
	if want.InFlight > 0 {
		m.inFlight = want.InFlight * max(1, len(m.devices()))
	}
	if m.solves() {
		m.MaxRows = 1
	}
	m.batcher = queue.New(checked{m.Backend, s.config.Log}, queue.Config{
		MaxRows: m.MaxRows, MaxDelay: m.MaxDelay, InFlight: m.inFlight, MaxQueued: m.MaxQueued, MaxWait: m.MaxWait,
		OnBatch: func(b queue.Sent) {
			if b.Accepted > 0 {
				s.searched.batch(b)
			}
			if b.Accepted < b.Rows {
				m.stats.batch(b)
			}
		},
	})
	options := eval.Options{OnAnswers: m.stats.answered, OwnRules: m.solves()}
	if old != nil && old.config.Cache == want.Cache {
		m.cache = old.cache
	} else if want.Cache > 0 {
		m.cache = eval.NewCache(want.Cache)
	}
	if m.Platform == NetworkPlatform {
		s.number++ // so that the cache returns no answers of older weights
		options.Cache, options.Model = m.cache, fmt.Sprint(s.number)
	}
	m.evaluator = eval.New(m.batcher, options)
	m.hold()
	m.end = func() {
		defer s.generations.Done()
		s.close(m)
	}
	if err := s.warmUp(m); err != nil {
		s.close(m)
		return nil, err
	}
	return m, nil
}

// warmUp evaluates Settings.WarmUp rows of the empty board, unless the model does not support the
// board of requests that name none.
func (s *Server) warmUp(m *model) error {
	if m.evaluator.Supports(s.board) != nil {
		return nil
	}
	b := new(eval.Batch)
	for left := m.WarmUp; left > 0; left -= m.MaxRows {
		b.Reset(s.board, min(left, m.MaxRows))
		if err := (checked{m.Backend, s.config.Log}).Compute(context.Background(), b); err != nil {
			return fmt.Errorf("warm-up: %w", err)
		}
	}
	return nil
}

// close closes a model without references. It waits for a batch that cancelled requests may have left.
func (s *Server) close(m *model) {
	defer s.memory.release(m.bytes)
	m.batcher.Close()
	if m.Close == nil {
		return
	}
	if err := m.Close(); err != nil {
		s.config.Log.Warn("a model could not be closed properly", "model", m.ref, "version", m.Version, "error", err)
	}
}

// Platforms of models, in their metadata.
const (
	NetworkPlatform   = "evald_network"
	HeuristicPlatform = "evald_heuristic"
)

// checked is a backend that returns an error if the wrapped backend panics or answers with numbers that are not finite.
type checked struct {
	eval.Backend
	log *slog.Logger
}

func (c checked) Compute(ctx context.Context, b *eval.Batch) (err error) {
	defer func() {
		if f := fault.In(err); f != nil { // of this goroutine or of one that the backend has started
			c.log.Error("an evaluator panicked", "fault", f.Value, "stack", f.Stack)
			err = fmt.Errorf("evaluate: the evaluator had a fault; the log has the details")
		}
	}()
	defer fault.Catch(&err)
	if err := c.Backend.Compute(ctx, b); err != nil {
		return err
	}
	return b.Finite()
}

// Evaluator returns an evaluator on a served model, by its name or NAME@VERSION, for callers in this program, which together count as one
// client. It always uses the newest weights. The empty name stands for the model that "search" uses.
func (s *Server) Evaluator(name string) (*eval.Evaluator, error) {
	name = cmp.Or(name, searchModel)
	m, err := s.models.find(name, "")
	if err != nil {
		return nil, errors.New(status.Convert(err).Message())
	}
	n := newest{&s.models, name, m.Backend.Attributes()}
	n.attributes.Supports = n.supports
	return eval.New(n, eval.Options{}), nil
}

// newest is a backend that computes each batch with the model that is currently served under a name.
type newest struct {
	models     *repository
	name       string
	attributes eval.Attributes
}

// Attributes returns the attributes of the model that was served first, but Supports asks the
// current one.
func (n newest) Attributes() eval.Attributes { return n.attributes }

func (n newest) supports(b *game.Board) error {
	m, err := n.models.hold(n.name, "")
	if err != nil {
		return errors.New(status.Convert(err).Message())
	}
	defer m.release()
	return m.evaluator.Supports(b)
}

// Compute implements eval.Backend. It returns an error after the model was unloaded or the server has ended.
func (n newest) Compute(ctx context.Context, b *eval.Batch) error {
	m, err := n.models.hold(n.name, "")
	if err != nil {
		return errors.New(status.Convert(err).Message())
	}
	defer m.release()
	client := queue.Client{Batcher: m.batcher, Caller: queue.Caller{Client: "this program", Priority: queue.High, Accepted: true}}
	return m.evaluator.WithBackend(&client).Leaves(ctx, b)
}

// repository holds the models that are served.
type repository struct {
	mu     sync.RWMutex
	models []*model          // by name, the newest version first
	failed map[string]string // by ref: why the last attempt to load or reload a model failed
	ended  bool              // whether all models were released
}

// list returns all models, sorted by name and, within a name, the newest version first.
func (r *repository) list() []*model {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Clone(r.models)
}

// failure returns why the last attempt to load or reload a model failed, or "" if it did not fail.
func (r *repository) failure(ref string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.failed[ref]
}

// of returns the models with a name, or the one with that ref.
func of(models []*model, name string) (all []*model) {
	for _, m := range models {
		if m.name == name || m.ref == name {
			all = append(all, m)
		}
	}
	return all
}

// named returns the model with a ref, or nil.
func named(models []*model, ref string) *model {
	for _, m := range models {
		if m.ref == ref {
			return m
		}
	}
	return nil
}

// find returns a model without a reference, for descriptions. Without a version, here or in name as NAME@VERSION, it is the newest one.
func (r *repository) find(name, version string) (*model, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return choose(r.models, name, version)
}

func choose(all []*model, name, version string) (*model, error) {
	if version == "" {
		name, version, _ = strings.Cut(name, "@")
	}
	var have []string
	for _, m := range all {
		if m.name == name && (version == "" || version == m.Version) {
			return m, nil
		} else if m.name == name {
			have = append(have, m.Version)
		}
	}
	if have == nil {
		names := map[string]bool{}
		for _, m := range all {
			names[m.name] = true
		}
		return nil, refuse(codes.NotFound, "model %s is not served; there are %v", short.Quote(name), slices.Sorted(maps.Keys(names)))
	}
	return nil, refuse(codes.NotFound, "model %q has version %s here, not %s", name, strings.Join(have, " and "), short.Quote(version))
}

// hold returns a model with a reference, which the caller releases.
func (r *repository) hold(name, version string) (*model, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.ended {
		return nil, errDraining
	}
	m, err := choose(r.models, name, version)
	if err == nil {
		m.hold() // safe: the repository keeps its reference while mu is locked
	}
	return m, err
}
