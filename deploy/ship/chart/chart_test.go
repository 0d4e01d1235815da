// Package chart_test renders the Helm chart with Helm, and checks each object.
package chart_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

const (
	chartDir = "../../chart"
	plainDir = "../../kubernetes"
)

var update = flag.Bool("update", false, "write deploy/kubernetes and the chart's copy of the rules again")

// sets are the files of values that the tests render, besides the defaults.
var sets = []string{"default", "minimal", "full", "sentinel", "cluster"}

// objects are the decoded objects of one rendering.
type objects struct {
	deployment *appsv1.Deployment
	services   map[string]*corev1.Service // by component
	budget     *policyv1.PodDisruptionBudget
	scaler     *autoscalingv2.HorizontalPodAutoscaler
	policy     *networkingv1.NetworkPolicy
	monitor    *monitoringv1.ServiceMonitor
	rules      *monitoringv1.PrometheusRule
}

func mustLoad(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load(chartDir)
	require.NoError(t, err)
	return c
}

// valuesOf returns a file of values; none for the defaults.
func valuesOf(t *testing.T, set string) map[string]any {
	t.Helper()
	values := map[string]any{}
	if set != "default" {
		text, err := os.ReadFile(filepath.Join("testdata", set+".yaml"))
		require.NoError(t, err)
		require.NoError(t, yaml.UnmarshalStrict(text, &values))
	}
	return values
}

// render returns the text of each object of the chart, in the order of its templates.
func render(t *testing.T, values map[string]any, service string) ([]string, error) {
	t.Helper()
	c := mustLoad(t)
	all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "hookladder", Namespace: "hookladder", Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	all["Release"].(map[string]any)["Service"] = service
	files, err := (engine.Engine{Strict: true}).Render(c, all)
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(name) != ".yaml" {
			continue
		}
		for _, text := range regexp.MustCompile(`(?m)^---\n`).Split(files[name], -1) {
			if strings.TrimSpace(text) != "" {
				texts = append(texts, strings.TrimSpace(text)+"\n")
			}
		}
	}
	return texts, nil
}

// decode decodes each object into its Go type. A field that the type does not have is an error.
func decode(t *testing.T, texts []string) objects {
	t.Helper()
	o := objects{services: map[string]*corev1.Service{}}
	for _, text := range texts {
		var head struct{ APIVersion, Kind string }
		require.NoError(t, yaml.Unmarshal([]byte(text), &head), text)
		into := func(object any) { require.NoError(t, yaml.UnmarshalStrict([]byte(text), object), text) }
		switch head.APIVersion + " " + head.Kind {
		case "apps/v1 Deployment":
			into(&o.deployment)
		case "v1 Service":
			var s *corev1.Service
			into(&s)
			o.services[s.Labels["app.kubernetes.io/component"]] = s
		case "policy/v1 PodDisruptionBudget":
			into(&o.budget)
		case "autoscaling/v2 HorizontalPodAutoscaler":
			into(&o.scaler)
		case "networking.k8s.io/v1 NetworkPolicy":
			into(&o.policy)
		case "monitoring.coreos.com/v1 ServiceMonitor":
			into(&o.monitor)
		case "monitoring.coreos.com/v1 PrometheusRule":
			into(&o.rules)
		default:
			require.Fail(t, "an object of an unknown kind", text)
		}
	}
	return o
}

func mustRender(t *testing.T, set string) objects {
	t.Helper()
	texts, err := render(t, valuesOf(t, set), "Helm")
	require.NoError(t, err)
	return decode(t, texts)
}

func TestHelmFindsNoFaultInTheChart(t *testing.T) {
	for _, set := range sets {
		result := lint.AllWithKubeVersion(chartDir, valuesOf(t, set), "hookladder", &chartutil.KubeVersion{Version: "v1.33.0", Major: "1", Minor: "33"})
		for _, m := range result.Messages {
			// An icon is the only recommendation that the chart does not follow.
			require.True(t, m.Severity <= support.InfoSev && strings.Contains(m.Error(), "icon"), "%s: %s", set, m.Error())
		}
	}
}

func TestStrictDecodingFindsAMisspelledField(t *testing.T) {
	var d *appsv1.Deployment
	require.ErrorContains(t, yaml.UnmarshalStrict([]byte("spec: {replica: 2}"), &d), `unknown field "replica"`)
}

func TestEachSetOfValuesRendersItsObjects(t *testing.T) {
	for set, want := range map[string]string{
		"default":  "[api metrics] budget",
		"minimal":  "[metrics]",
		"full":     "[api metrics] budget scaler policy monitor rules",
		"sentinel": "[api metrics] budget policy",
		"cluster":  "[api metrics] budget scaler",
	} {
		o := mustRender(t, set)
		require.NotNil(t, o.deployment)
		got := fmt.Sprint(slices.Sorted(maps.Keys(o.services)))
		for name, there := range map[string]bool{
			" budget": o.budget != nil, " scaler": o.scaler != nil, " policy": o.policy != nil, " monitor": o.monitor != nil, " rules": o.rules != nil,
		} {
			require.Equal(t, strings.Contains(want, name), there, "%s:%s", set, name)
		}
		require.Equal(t, strings.SplitAfter(want, "]")[0], got, set)
	}
}

// The plain objects are for those who do not use Helm.
func TestThePlainObjectsAreThoseOfTheChart(t *testing.T) {
	for _, set := range []string{"default", "full"} {
		texts, err := render(t, valuesOf(t, set), "kubectl")
		require.NoError(t, err)
		want := fmt.Sprintf("# Rendered from deploy/chart with the values of %q. Do not edit it.\n---\n", set) + strings.Join(texts, "---\n")
		mustBe(t, filepath.Join(plainDir, set+".yaml"), want)
	}
}

// The chart can only read files of its own folder.
func TestTheChartHasTheRulesOfPrometheus(t *testing.T) {
	want, err := os.ReadFile("../../prometheus/rules.yaml")
	require.NoError(t, err)
	mustBe(t, filepath.Join(chartDir, "files", "rules.yaml"), string(want))

	var file struct{ Groups []monitoringv1.RuleGroup }
	require.NoError(t, yaml.Unmarshal(want, &file))
	require.NotEmpty(t, file.Groups[0].Rules)
	require.Equal(t, file.Groups, mustRender(t, "full").rules.Spec.Groups)
}

// mustBe compares a checked-in file, or writes it with -update.
func mustBe(t *testing.T, file, want string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o600))
	}
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.True(t, bytes.Equal([]byte(want), got), "%s is out of date: run go test . -update in deploy/ship/chart", file)
}
