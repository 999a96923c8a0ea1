//go:build first

package main

import (
	"context"
	"errors"
	"slices"

	"github.com/evald/evald/engine/durable"
)

// The program that make run builds has the tag first. It evaluates, searches, solves and plays. It lacks what trains and
// what serves, because gorgonia, NATS, gRPC and OpenTelemetry, with all that they import, are more than a third of a
// first build and of its downloads. make build has everything.

// leftOut stands for each command that trains or serves.
type leftOut struct {
	Arguments []string `arg:"" optional:"" passthrough:""`
}

type (
	trainCmd   = leftOut
	learnCmd   = leftOut
	clusterCmd = leftOut
	serveCmd   = leftOut
	mcpCmd     = leftOut
	pageCmd    = leftOut

	benchServeCmd = leftOut
)

var errLeftOut = errors.New("this is the program of make run, which evaluates and plays alone: make build builds bin/evald, which also trains and serves")

// Run refuses the command.
func (leftOut) Run() error { return errLeftOut }

// joinFlags are the flag that would make evald selfplay a worker of a learner.
type joinFlags struct {
	Join string `placeholder:"URL" help:"Play games for the learner at this NATS server. This program cannot."`
}

// recordFiles are the files of the operating system: the client of buckets is left out.
type recordFiles struct{ durable.FS }

func newRecordFiles(context.Context) *recordFiles { return &recordFiles{durable.OS} }

// Expand refuses paths of buckets.
func (recordFiles) Expand(paths []string) ([]string, error) {
	if slices.ContainsFunc(paths, isBucket) {
		return nil, errLeftOut
	}
	return paths, nil
}

// Put refuses the copy.
func (recordFiles) Put(string, string) (bool, error) { return false, errLeftOut }

// Close does nothing.
func (recordFiles) Close() error { return nil }

func (c *selfplayCmd) work(context.Context, streams) error { return errLeftOut }
