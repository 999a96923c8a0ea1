package bucket

import (
	"context"

	"github.com/minio/minio-go/v7"
)

func makeBucket(ctx context.Context, server *minio.Client) error {
	return server.MakeBucket(ctx, "games", minio.MakeBucketOptions{})
}
