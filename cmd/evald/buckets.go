//go:build !first

package main

import (
	"context"

	"github.com/evald/evald/engine/record/bucket"
)

// recordFiles are files of records, also those of buckets.
type recordFiles = bucket.Files

func newRecordFiles(ctx context.Context) *recordFiles { return bucket.New(ctx) }
