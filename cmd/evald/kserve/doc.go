// Package kserve is the Open Inference Protocol (KServe v2) over gRPC as evald speaks it, generated from the two .proto
// files by make proto. Names and field numbers are those of Triton Inference Server, so that its clients work unchanged;
// a test of package service compares them with PyPI's tritonclient.
package kserve
