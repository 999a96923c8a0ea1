// Command manifests builds a folder with Kustomize, prints the objects, and fails if one has a
// field that its type does not have:
//
//	manifests ../../cmd/evald/deploy/overlays/gpu
package main

import (
	"fmt"
	"os"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// types are those of Kubernetes and of Prometheus's operator.
var types = map[string]func() any{
	"apps/v1/Deployment":                      func() any { return new(apps.Deployment) },
	"apps/v1/StatefulSet":                     func() any { return new(apps.StatefulSet) },
	"autoscaling/v2/HorizontalPodAutoscaler":  func() any { return new(autoscaling.HorizontalPodAutoscaler) },
	"batch/v1/Job":                            func() any { return new(batch.Job) },
	"monitoring.coreos.com/v1/PrometheusRule": func() any { return new(monitoring.PrometheusRule) },
	"monitoring.coreos.com/v1/ServiceMonitor": func() any { return new(monitoring.ServiceMonitor) },
	"networking.k8s.io/v1/NetworkPolicy":      func() any { return new(networking.NetworkPolicy) },
	"policy/v1/PodDisruptionBudget":           func() any { return new(policy.PodDisruptionBudget) },
	"v1/ConfigMap":                            func() any { return new(core.ConfigMap) },
	"v1/Service":                              func() any { return new(core.Service) },
}

func main() {
	if err := build(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		os.Exit(1)
	}
}

func build(dir string) error {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return err
	}
	for _, o := range built.Resources() {
		kind := o.GetApiVersion() + "/" + o.GetKind()
		if kind == "keda.sh/v1alpha1/ScaledObject" { // whose module is as large as all others together
			continue
		}
		of, ok := types[kind]
		if !ok {
			return fmt.Errorf("%s: %s is not in the tables of this program", o.GetName(), kind)
		}
		if err := yaml.UnmarshalStrict([]byte(o.MustYaml()), of()); err != nil {
			return fmt.Errorf("%s %s: %w", kind, o.GetName(), err)
		}
	}
	text, err := built.AsYaml()
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	return err
}
