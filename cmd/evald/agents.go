package main

import (
	"io"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/nn/net"
)

// agentModels loads the networks that agents name. What the user should know about them goes to notes.
func agentModels(notes io.Writer) agent.Models {
	return func(name string) (eval.Evaluator, error) {
		n, _, err := loadModel(name, notes)
		if err != nil {
			return nil, err
		}
		return net.NewEvaluator(n), nil
	}
}
