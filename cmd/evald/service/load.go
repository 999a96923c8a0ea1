package service

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/evald/evald/engine/short"
)

// This file exchanges the models that are served: at the start, when clients load and unload them, and when they are reloaded. Models
// are made ready while the old ones answer, and then exchanged together, or not at all.

// replacement is a model that is ready, and not served yet.
type replacement struct {
	*model
	config     Model
	generation *generation
	changed    any
}

// prepare makes a model ready. The caller holds loading.
func (s *Server) prepare(want Model) (replacement, error) {
	s.models.mu.RLock()
	r := replacement{model: s.models.models[want.Ref()], config: want}
	s.models.mu.RUnlock()
	if r.model == nil {
		r.model = &model{name: want.Name, ref: want.Ref()}
	}
	var err error
	if r.changed, err = s.changed(want); err != nil {
		return r, err
	}
	loaded, bytes, err := s.open(want)
	if err != nil {
		return r, err
	}
	r.generation = s.generation(r.model, want, loaded)
	r.generation.bytes = bytes
	if err = s.warmUp(r.generation); err != nil {
		s.endGeneration(r.ref, r.generation)
	}
	return r, err
}

// open loads a model, for which bytes of the budget are taken before it is read.
func (s *Server) open(m Model) (l Loaded, bytes int64, err error) {
	if s.config.Bytes != nil {
		if bytes, err = s.config.Bytes(m); err != nil {
			return l, 0, err
		}
	}
	read, err := s.memory.reserve(bytes, LeastMemory(s.config.Limits.Body))
	if err != nil {
		return l, 0, err
	}
	defer read()
	if l, err = s.config.Load(m); err != nil {
		s.memory.release(bytes)
	}
	return l, bytes, err
}

func (s *Server) changed(m Model) (any, error) {
	if s.config.Changed == nil {
		return nil, nil
	}
	return s.config.Changed(m)
}

// replace makes models ready and then serves all of them, in place of what was served under the same names. If one cannot be made
// ready, nothing changes, and the error says which. Unless it is nil, configured is the models that are configured from then on; others
// that were are no longer served. The caller holds loading.
func (s *Server) replace(load, configured []Model) (err error) {
	var ready []replacement
	defer func() {
		if err != nil {
			for _, r := range ready {
				s.endGeneration(r.ref, r.generation)
			}
		}
	}()
	for _, want := range load {
		r, err := s.prepare(want)
		if err != nil {
			if configured == nil || s.configured == nil {
				return s.notLoaded(want, err)
			}
			return fmt.Errorf("model %q: %w", want.Ref(), err)
		}
		ready = append(ready, r)
	}
	s.models.mu.Lock()
	defer s.models.mu.Unlock()
	if s.models.ended {
		return errDraining
	}
	if err := s.distinct(ready); err != nil {
		return err
	}
	if configured != nil {
		if err := s.searchable(configured[0].Ref(), ready); err != nil {
			return err
		}
	}
	for _, r := range ready {
		s.generations.Add(1)
		old := r.current.Swap(r.generation)
		if s.models.models[r.ref] == r.model { // or else it is new, or unload has let go of it
			old.release()
		}
		s.models.models[r.ref], r.model.config, r.model.changed = r.model, r.config, r.changed
		delete(s.models.failed, r.ref)
		s.config.Log.Info("model is ready", "model", r.name, "version", r.generation.Version, "how", r.generation.Describe)
	}
	if configured != nil {
		for _, old := range s.configured {
			if m := s.models.models[old.Ref()]; m != nil && !contains(configured, old.Ref()) {
				s.remove(m)
			}
		}
		for _, m := range configured {
			delete(s.models.failed, m.Ref())
		}
		s.configured = configured
		s.models.models[searchModel] = s.searcher
	}
	s.searcher.current.Store(s.models.models[s.configured[0].Ref()].current.Load())
	s.models.order()
	return nil
}

// searchable is an error if the model search cannot search with a model. mu is held.
func (s *Server) searchable(ref string, ready []replacement) error {
	var g *generation
	if m := s.models.models[ref]; m != nil {
		g = m.current.Load()
	}
	for _, r := range ready {
		if r.ref == ref {
			g = r.generation
		}
	}
	switch {
	case g == nil:
		return fmt.Errorf("model %s was unloaded meanwhile: reload again", ref)
	case g.Platform == SolverPlatform:
		return fmt.Errorf("model %s: the model search cannot search with it: name another model first", ref)
	}
	return nil
}

// remove ends a model's service; requests under way are answered. models.mu is locked, and the caller orders the models anew.
func (s *Server) remove(m *model) {
	delete(s.models.models, m.ref)
	m.current.Load().release()
	s.config.Log.Info("model was unloaded", "model", m.ref)
}

func contains(models []Model, ref string) bool {
	return slices.ContainsFunc(models, func(m Model) bool { return m.Ref() == ref })
}

// distinct is an error if two models would have the same name and version. mu is held.
func (s *Server) distinct(ready []replacement) error {
	refs := map[string]string{} // NAME@VERSION -> how the model was asked for
	for _, r := range ready {
		refs[r.name+"@"+r.generation.Version] = r.ref
	}
	for _, r := range ready {
		same := refs[r.name+"@"+r.generation.Version]
		for _, m := range s.models.names[r.name] {
			if m.current.Load().Version == r.generation.Version && m.ref != r.ref && !slices.ContainsFunc(ready, func(r replacement) bool { return r.ref == m.ref }) {
				same = m.ref
			}
		}
		if same != r.ref {
			return fmt.Errorf("two models are called %s, both of version %s: %s and %s", r.name, r.generation.Version, r.ref, same)
		}
	}
	return nil
}

func (s *Server) notLoaded(m Model, err error) error {
	s.models.mu.Lock()
	if served := s.models.models[m.Ref()]; served != nil {
		s.reloadFailed(served, err)
	} else if m.Version == "" || contains(s.configured, m.Ref()) { // other versions are not listed, and there is no end to their numbers
		s.models.failed[m.Ref()] = err.Error()
	}
	s.models.mu.Unlock()
	s.config.Log.Warn("model could not be loaded", "model", short.Text(m.Ref()), "error", err)
	return fmt.Errorf("model %q: %w", m.Ref(), err)
}

// reloadFailed notes why a model that is served was not loaded anew. models.mu is locked.
func (s *Server) reloadFailed(m *model, err error) {
	m.stats.update(func(c *counts) { c.reloadFailures++ })
	s.models.failed[m.ref] = "the last reload failed, and the weights before it serve: " + err.Error()
}

// load makes a model ready by its name or NAME@VERSION: a new one, or a new generation of each version that is configured or served,
// which answers until then.
func (s *Server) load(name string) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	if base, _, _ := strings.Cut(name, "@"); base == searchModel {
		return fmt.Errorf("model %q searches with %q: load that", name, s.configured[0].Ref())
	}
	var load []Model
	for _, m := range append(slices.Clone(s.configured), s.served()...) {
		if (m.Name == name || m.Ref() == name) && !contains(load, m.Ref()) {
			load = append(load, m)
		}
	}
	if load == nil {
		base, version, _ := strings.Cut(name, "@")
		load = []Model{{Name: base, Version: version}}
		if err := s.config.complete(load); err != nil {
			return err
		}
	}
	return s.replace(load, nil)
}

// served is the models that are served, as they were last loaded. The caller holds loading.
func (s *Server) served() (all []Model) {
	for _, m := range s.models.list() {
		if !m.searches {
			all = append(all, m.config)
		}
	}
	return all
}

// unload ends the service of a version, NAME@VERSION, or of all versions of a name; requests under way are answered.
func (s *Server) unload(name string) error {
	s.models.mu.Lock()
	defer s.models.mu.Unlock()
	first := s.configured[0]
	if name == searchModel || name == first.Name || name == first.Ref() {
		return invalid("model %q: is what \"search\" searches with, and stays", name)
	}
	found := false
	for _, m := range s.models.models {
		if !s.models.ended && (m.name == name || m.ref == name) {
			found = true
			s.remove(m)
			delete(s.models.failed, m.ref)
		}
	}
	if !found {
		return refuse(codes.NotFound, "model %q is not served", name)
	}
	s.models.order()
	return nil
}

// Reload loads every model anew, for new weights under the same names, and other models if Config.Reread has others. Models of
// Config.Reread are exchanged together. Where that fails the old ones still serve.
func (s *Server) Reload() {
	s.loading.Lock()
	defer s.loading.Unlock()
	alone := s.served()
	if s.config.Reread != nil {
		alone = slices.DeleteFunc(alone, func(m Model) bool { return contains(s.configured, m.Ref()) })
		s.reread(true)
	}
	for _, m := range alone {
		_ = s.replace([]Model{m}, nil) // logged
	}
}

// reread serves the models of Config.Reread: all of them anew, or those that have changed since it was last called. The caller
// holds loading.
func (s *Server) reread(all bool) {
	models, err := s.config.Reread()
	if err == nil {
		err = s.config.complete(models)
	}
	if err != nil {
		if all || err.Error() != s.wrong {
			s.notReloaded(err)
		}
		s.wrong = err.Error()
		return
	}
	if !all && s.wrong == "" && slices.Equal(models, s.tried) {
		return
	}
	s.wrong = ""
	s.tried = slices.Clone(models)
	load := models
	if !all {
		served := s.served()
		load = slices.DeleteFunc(slices.Clone(models), func(m Model) bool { return slices.Contains(served, m) })
	}
	if err := s.replace(load, models); err != nil {
		s.notReloaded(err)
	}
}

// notReloaded reports that the configured models could not be exchanged. Those that were served still are.
func (s *Server) notReloaded(err error) {
	s.models.mu.Lock()
	for _, m := range s.models.models {
		if contains(s.configured, m.ref) {
			s.reloadFailed(m, err)
		}
	}
	s.models.mu.Unlock()
	s.config.Log.Error("the models were not reloaded; those that are served stay", "error", err)
}

// watch reloads models when Config.Reread has others, or their files have changed, until ctx ends.
func (s *Server) watch(ctx context.Context) {
	for tick := time.Tick(s.config.Watch); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		s.loading.Lock()
		if s.config.Reread != nil {
			s.reread(false)
		}
		for _, m := range s.models.list() {
			if m.searches {
				continue
			}
			if now, err := s.changed(m.config); err == nil && now != m.changed && s.replace([]Model{m.config}, nil) != nil {
				m.changed = now // not again until it changes once more
			}
		}
		s.loading.Unlock()
	}
}
