package service

import (
	"context"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/nn/net"
)

// This file has the calls of gRPC that describe the server and its models. REST gives the same messages as JSON.

func (s grpcService) ServerLive(context.Context, *kserve.ServerLiveRequest) (*kserve.ServerLiveResponse, error) {
	return &kserve.ServerLiveResponse{Live: true}, nil
}

func (s grpcService) ServerReady(context.Context, *kserve.ServerReadyRequest) (*kserve.ServerReadyResponse, error) {
	return &kserve.ServerReadyResponse{Ready: s.isReady()}, nil
}

func (s grpcService) ModelReady(_ context.Context, r *kserve.ModelReadyRequest) (*kserve.ModelReadyResponse, error) {
	_, err := s.models.find(r.Name, r.Version)
	return &kserve.ModelReadyResponse{Ready: err == nil && s.isReady()}, nil
}

func (s grpcService) ServerMetadata(context.Context, *kserve.ServerMetadataRequest) (*kserve.ServerMetadataResponse, error) {
	extensions := []string{"binary_tensor_data", "schedule_policy", "model_configuration", "statistics"}
	if s.config.Repository {
		extensions = append(extensions, "model_repository")
	}
	return &kserve.ServerMetadataResponse{Name: "evald", Version: s.config.Version, Extensions: extensions}, nil
}

// dims is the shape of a row of an input or output on the server's own board. On other boards it differs.
func (s *Server) dims(name string) []int64 {
	b := s.board
	switch name {
	case bitboardsInput:
		return []int64{int64(2 * words(b))}
	case planesInput:
		return []int64{net.PlaneCount, int64(b.Rows()), int64(b.Columns())}
	case movesInput:
		return []int64{1}
	}
	return []int64{int64(width(name, b))}
}

var inputNames = []string{bitboardsInput, planesInput, movesInput}

func (s grpcService) ModelMetadata(_ context.Context, ask *kserve.ModelMetadataRequest) (*kserve.ModelMetadataResponse, error) {
	m, err := s.models.find(ask.Name, ask.Version)
	if err != nil {
		return nil, err
	}
	g := m.current.Load()
	r := &kserve.ModelMetadataResponse{Name: m.name, Versions: []string{g.Version}, Platform: g.Platform}
	of := func(name, datatype string) *kserve.ModelMetadataResponse_TensorMetadata {
		return &kserve.ModelMetadataResponse_TensorMetadata{Name: name, Datatype: datatype, Shape: append([]int64{-1}, s.dims(name)...)}
	}
	for _, name := range inputNames {
		r.Inputs = append(r.Inputs, of(name, inputTypes[name]))
	}
	for _, name := range m.outputs() {
		r.Outputs = append(r.Outputs, of(name, outputTypes[name]))
	}
	return r, nil
}

var configTypes = map[string]kserve.DataType{
	uint8Type: kserve.DataType_TYPE_UINT8, int32Type: kserve.DataType_TYPE_INT32, uint64Type: kserve.DataType_TYPE_UINT64,
	floatType: kserve.DataType_TYPE_FP32, bytesType: kserve.DataType_TYPE_STRING,
}

func (s grpcService) ModelConfig(_ context.Context, ask *kserve.ModelConfigRequest) (*kserve.ModelConfigResponse, error) {
	m, err := s.models.find(ask.Name, ask.Version)
	if err != nil {
		return nil, err
	}
	g, b := m.current.Load(), s.config.Batching
	c := &kserve.ModelConfig{
		Name: m.name, Platform: g.Platform, Backend: "evald", MaxBatchSize: int32(s.config.Limits.Batch),
		VersionPolicy:          &kserve.ModelVersionPolicy{PolicyChoice: &kserve.ModelVersionPolicy_Latest_{Latest: &kserve.ModelVersionPolicy_Latest{NumVersions: 1}}},
		ModelTransactionPolicy: &kserve.ModelTransactionPolicy{},
		ResponseCache:          &kserve.ModelResponseCache{Enable: s.cache != nil && g.Platform == NetworkPlatform},
		SchedulingChoice: &kserve.ModelConfig_DynamicBatching{DynamicBatching: &kserve.ModelDynamicBatching{
			PreferredBatchSize: []int32{int32(b.MaxRows)}, MaxQueueDelayMicroseconds: uint64(b.MaxDelay.Microseconds()),
			PriorityLevels: 3, DefaultPriorityLevel: 2,
			DefaultQueuePolicy: &kserve.ModelQueuePolicy{
				DefaultTimeoutMicroseconds: uint64(s.config.Limits.Timeout.Microseconds()), AllowTimeoutOverride: true, MaxQueueSize: uint32(b.MaxQueued),
			},
		}},
		Parameters: map[string]*kserve.ModelParameter{
			"board": {StringValue: s.board.Rules().String()},
			"how":   {StringValue: g.Describe},
		},
	}
	for _, name := range inputNames {
		c.Input = append(c.Input, &kserve.ModelInput{Name: name, DataType: configTypes[inputTypes[name]], Dims: s.dims(name), Optional: true})
	}
	for _, name := range m.outputs() {
		c.Output = append(c.Output, &kserve.ModelOutput{Name: name, DataType: configTypes[outputTypes[name]], Dims: s.dims(name)})
	}
	return &kserve.ModelConfigResponse{Config: c}, nil
}

func (s grpcService) ModelStatistics(_ context.Context, ask *kserve.ModelStatisticsRequest) (*kserve.ModelStatisticsResponse, error) {
	models := s.models.list()
	if ask.Name != "" {
		m, err := s.models.find(ask.Name, ask.Version)
		if err != nil {
			return nil, err
		}
		models = []*model{m}
	}
	r := &kserve.ModelStatisticsResponse{}
	for _, m := range models {
		r.ModelStats = append(r.ModelStats, m.message())
	}
	return r, nil
}

var errNoRepository = status.Error(codes.Unimplemented, "models are loaded at the start alone here; evald serve --repository allows these calls")

func (s grpcService) RepositoryIndex(_ context.Context, ask *kserve.RepositoryIndexRequest) (*kserve.RepositoryIndexResponse, error) {
	if !s.config.Repository {
		return nil, errNoRepository
	}
	index := map[string]*kserve.RepositoryIndexResponse_ModelIndex{}
	s.models.mu.RLock()
	failed := maps.Clone(s.models.failed)
	s.models.mu.RUnlock()
	if !ask.Ready {
		for _, name := range s.config.Available() {
			index[name] = &kserve.RepositoryIndexResponse_ModelIndex{Name: name, State: "UNAVAILABLE", Reason: "not loaded"}
		}
		for name, why := range failed {
			index[name] = &kserve.RepositoryIndexResponse_ModelIndex{Name: name, State: "UNAVAILABLE", Reason: why}
		}
	}
	for _, m := range s.models.list() {
		index[m.name] = &kserve.RepositoryIndexResponse_ModelIndex{Name: m.name, Version: m.current.Load().Version, State: "READY", Reason: failed[m.name]}
	}
	r := &kserve.RepositoryIndexResponse{}
	for _, name := range slices.Sorted(maps.Keys(index)) {
		r.Models = append(r.Models, index[name])
	}
	return r, nil
}

func (s grpcService) RepositoryModelLoad(_ context.Context, ask *kserve.RepositoryModelLoadRequest) (*kserve.RepositoryModelLoadResponse, error) {
	var err error
	switch {
	case !s.config.Repository:
		err = errNoRepository
	case len(ask.Parameters) > 0:
		err = status.Error(codes.Unimplemented, "load: a model is loaded as it is, without parameters")
	case !s.loadable(ask.ModelName):
		err = invalid("model %s: there is no model of that name; there are %v", short.Quote(ask.ModelName), s.config.Available())
	default:
		err = s.load(ask.ModelName)
	}
	return &kserve.RepositoryModelLoadResponse{}, err
}

// loadable reports whether a client may load a model: one that was served from the start, or any version of one that is
// available. No other name is looked for, so that no answer tells what else is on this machine.
func (s *Server) loadable(name string) bool {
	model, _, _ := strings.Cut(name, "@")
	return slices.Contains(s.config.Models, name) || name == searchModel || slices.Contains(s.config.Available(), model)
}

func (s grpcService) RepositoryModelUnload(_ context.Context, ask *kserve.RepositoryModelUnloadRequest) (*kserve.RepositoryModelUnloadResponse, error) {
	err := errNoRepository
	if s.config.Repository {
		err = s.unload(ask.ModelName)
	}
	return &kserve.RepositoryModelUnloadResponse{}, err
}
