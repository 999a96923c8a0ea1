package service

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/evald/evald/engine/short"
)

// This file replaces the served models: at the start, when clients load and unload them, and at a reload. The old models answer while new
// ones are loaded; then all are replaced together, or none.

func (s *Server) changed(m Model) (any, error) {
	if s.config.Changed == nil {
		return nil, nil
	}
	return s.config.Changed(m)
}

// replace loads models and then serves all of them in place of served models with the same Ref. If one cannot be loaded, nothing changes,
// and the error names it. If configured is not nil, it becomes the list of configured models; models that are no longer in the list are no
// longer served. The caller holds loading.
func (s *Server) replace(load, configured []Model) (err error) {
	var ready []*model
	defer func() {
		if err != nil {
			for _, m := range ready {
				s.close(m)
			}
		}
	}()
	for _, want := range load {
		m, err := s.prepare(want, named(s.models.list(), want.Ref()))
		if err != nil {
			if configured == nil || s.configured == nil {
				return s.notLoaded(want, err)
			}
			return fmt.Errorf("model %q: %w", want.Ref(), err)
		}
		ready = append(ready, m)
	}
	s.models.mu.Lock()
	defer s.models.mu.Unlock()
	next := slices.Clone(ready)
	for _, m := range s.models.models {
		if named(ready, m.ref) == nil && !m.searches && (configured == nil || !contains(s.configured, m.ref) || contains(configured, m.ref)) {
			next = append(next, m)
		}
	}
	first := s.configured
	if configured != nil {
		first = configured
	}
	if err := s.exchange(next, first[0].Ref()); err != nil {
		return err
	}
	for _, m := range ready {
		s.config.Log.Info("model is ready", "model", m.name, "version", m.Version, "how", m.Describe)
		delete(s.models.failed, m.ref)
	}
	for _, m := range configured {
		delete(s.models.failed, m.Ref())
	}
	s.configured = first
	return nil
}

// exchange makes next the served models, and the one with Ref first the model that "search" uses. It releases all others; their requests in
// progress are still answered. If the models cannot be served together, it returns an error and changes nothing. models.mu is locked.
func (s *Server) exchange(next []*model, first string) error {
	slices.SortStableFunc(next, func(a, b *model) int {
		return cmp.Or(cmp.Compare(a.name, b.name), compareVersions(b.Version, a.Version))
	})
	for i := 1; i < len(next); i++ {
		if a, b := next[i-1], next[i]; a.name == b.name && a.Version == b.Version {
			return fmt.Errorf("two models are called %s, both of version %s: %s and %s", a.name, a.Version, a.ref, b.ref)
		}
	}
	with := named(next, first)
	switch {
	case s.models.ended:
		return errDraining
	case with == nil:
		return fmt.Errorf("model %s was unloaded meanwhile: reload again", first)
	case with.solves():
		return fmt.Errorf("model %s: the model search cannot search with it: name another model first", first)
	}
	for _, m := range next {
		if !slices.Contains(s.models.models, m) {
			s.generations.Add(1)
		}
	}
	for _, m := range s.models.models {
		if m.searches || slices.Contains(next, m) {
			continue
		}
		m.release()
		if named(next, m.ref) == nil {
			s.config.Log.Info("model was unloaded", "model", m.ref)
		}
	}
	at, _ := slices.BinarySearchFunc(next, searchModel, func(m *model, name string) int { return cmp.Compare(m.name, name) })
	s.models.models = slices.Insert(next, at, s.searching(with))
	return nil
}

// compareVersions orders versions: numbers by value, and other texts before them.
func compareVersions(a, b string) int {
	n, errN := strconv.Atoi(a)
	m, errM := strconv.Atoi(b)
	if errN != nil || errM != nil {
		n, m = -1, -1
	}
	return cmp.Or(cmp.Compare(n, m), cmp.Compare(a, b))
}

// end releases all models.
func (r *repository) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.models {
		if !r.ended && !m.searches { // the model search shares the reference of another model
			m.release()
		}
	}
	r.ended = true
}

func contains(models []Model, ref string) bool {
	return slices.ContainsFunc(models, func(m Model) bool { return m.Ref() == ref })
}

// notLoaded reports that a model was not loaded.
func (s *Server) notLoaded(m Model, err error) error {
	s.models.mu.Lock()
	if served := named(s.models.models, m.Ref()); served != nil {
		s.reloadFailed(served, err)
	} else if m.Version == "" || contains(s.configured, m.Ref()) { // a client could ask for any number of other versions, so they are not recorded
		s.models.failed[m.Ref()] = err.Error()
	}
	s.models.mu.Unlock()
	s.config.Log.Warn("model could not be loaded", "model", short.Text(m.Ref()), "error", err)
	return fmt.Errorf("model %q: %w", m.Ref(), err)
}

// reloadFailed records why a served model was not reloaded. models.mu is locked.
func (s *Server) reloadFailed(m *model, err error) {
	m.stats.update(func(c *counts) { c.reloadFailures++ })
	s.models.failed[m.ref] = "the last reload failed, and the weights before it serve: " + err.Error()
}

// load loads a model by its name or NAME@VERSION: a new one, or a new generation of each configured or served version. The old generations
// answer until the new ones are loaded.
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

// served returns the Models from which the served models were last loaded. The caller holds loading.
func (s *Server) served() (all []Model) {
	for _, m := range s.models.list() {
		if !m.searches {
			all = append(all, m.config)
		}
	}
	return all
}

// unload stops serving a version, NAME@VERSION, or all versions of a name. Requests in progress are still answered.
func (s *Server) unload(name string) error {
	s.models.mu.Lock()
	defer s.models.mu.Unlock()
	first := s.configured[0]
	if name == searchModel || name == first.Name || name == first.Ref() {
		return invalid("model %q: cannot be unloaded, because \"search\" uses it", name)
	}
	gone := of(s.models.models, name)
	if len(gone) == 0 || s.models.ended {
		return refuse(codes.NotFound, "model %q is not served", name)
	}
	for _, m := range gone {
		delete(s.models.failed, m.ref)
	}
	stay := slices.DeleteFunc(slices.Clone(s.models.models), func(m *model) bool { return m.searches || slices.Contains(gone, m) })
	return s.exchange(stay, first.Ref())
}

// Reload reads the access and loads every model again, for new weights under the same names. The
// models of Config.Reread are replaced together; other models one by one. If a model cannot be
// loaded, the old ones stay in service. The access does not depend on the models, so that a damaged
// network does not keep a revoked token in force.
func (s *Server) Reload() {
	s.loading.Lock()
	defer s.loading.Unlock()
	s.refresh(true)
}

// watch reloads the access and models whenever the result of Config.Reread, or a file of either,
// has changed, until ctx ends.
func (s *Server) watch(ctx context.Context) {
	for tick := time.Tick(s.config.Watch); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		s.loading.Lock()
		s.refresh(false)
		s.loading.Unlock()
	}
}

// refresh reloads the access and all models, or only what has changed. The caller holds loading.
func (s *Server) refresh(all bool) {
	s.refreshAccess(all)
	if s.config.Reread != nil {
		s.reread(all)
	}
	for _, m := range s.models.list() {
		if m.searches || all && s.config.Reread != nil && contains(s.configured, m.ref) {
			continue
		}
		now, err := s.changed(m.config)
		if (all || err == nil && now != m.changed) && s.replace([]Model{m.config}, nil) != nil { // replace logs its error
			s.models.mu.Lock()
			m.changed = now // the next attempt is after another change
			s.models.mu.Unlock()
		}
	}
}

// reread makes the result of Config.Reread the configured models. It reloads all of them, or only those that have changed since the last
// call. The caller holds loading.
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

// notReloaded reports that the configured models could not be replaced. The old ones stay in service.
func (s *Server) notReloaded(err error) {
	s.models.mu.Lock()
	for _, m := range s.models.models {
		if contains(s.configured, m.ref) {
			s.reloadFailed(m, err)
		}
	}
	s.models.mu.Unlock()
	s.config.Log.Error("the models were not reloaded; the old ones are still served", "error", err)
}
