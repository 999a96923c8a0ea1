package main

import (
	"io"
	"sync"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/eval"
)

// agentModels gives agents their networks, each loaded once. What the user should know of one goes to notes.
func agentModels(notes io.Writer) agent.Models {
	var mu sync.Mutex
	loaded := map[string]eval.Evaluator{}
	return func(name string) (eval.Evaluator, error) {
		mu.Lock()
		defer mu.Unlock()
		if e, ok := loaded[name]; ok {
			return e, nil
		}
		e, _, err := backend{Backend: "cpu", Model: name}.evaluator(notes)
		if err == nil {
			loaded[name] = e
		}
		return e, err
	}
}
