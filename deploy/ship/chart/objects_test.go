package chart_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	networkingv1 "k8s.io/api/networking/v1"
)

// schema is the part of a JSON schema that the tests read.
type schema struct {
	Properties map[string]schema `json:"properties"`
}

func mustReadSchema(t *testing.T) (s schema) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chartDir, "values.schema.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &s))
	return s
}

// Each value has a type in the schema. Each group of values, which an empty line ends, has a
// comment.
func TestEachValueIsDescribed(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(chartDir, "values.yaml"))
	require.NoError(t, err)
	for group := range strings.SplitSeq(string(text), "\n\n") {
		require.Regexp(t, `(?m)^ *# .*[.:]$`, group)
	}
	for name := range mustReadSchema(t).Properties {
		if name != "global" { // Helm adds it
			require.Contains(t, "\n"+string(text), "\n"+name+":", "values.yaml has each value")
		}
	}
}

// A wrong value is refused, and the error names it.
func TestWrongValuesAreRefusedByName(t *testing.T) {
	for _, c := range []struct{ values, names, why string }{
		{`{"replica": 3}`, "replica", "not allowed"},
		{`{"replicas": "three"}`, "/replicas", "want integer"},
		{`{"settings": {"REDIS_URL": "redis://a"}}`, "REDIS_URL", "not allowed"},
		{`{"settings": {"LADER": "5s"}}`, "LADER", "not allowed"},
		{`{"settings": {"LADDER": ["5s"]}}`, "/settings/LADDER", "want"},
		{`{"secrets": {"REDIS_URL": {"value": "redis://a"}}}`, "/secrets/REDIS_URL", "value"},
		{`{"secrets": {"REDIS_URL": null}}`, "/secrets", "REDIS_URL"},
		{`{"shutdown": {"delaySeconds": 61}}`, "/shutdown/delaySeconds", "maximum"},
		{`{"resources": {"limits": {"memory": "512M"}}}`, "/resources/limits/memory", "pattern"},
		{`{"maxInFlight": 8192}`, "maxInFlight", "resources.limits.memory is 512Mi"},
		{`{"files": {"REDIS_CA_FILE": {"key": "ca.crt"}}}`, "/files/REDIS_CA_FILE", "secret"},
		{`{"extraEnv": [{"name": "API_KEYS", "value": "x"}]}`, "/extraEnv/0/name", "pattern"},
		{`{"image": {"digest": "sha256:1"}}`, "/image/digest", "pattern"},
		{`{"autoscaling": {"enabled": true, "cpuPercent": null}}`, "cpuPercent", "set"},
		{`{"autoscaling": {"enabled": true, "maxReplicas": 1}}`, "maxReplicas 1", "less than"},
		{`{"autoscaling": {"oldestDueMetric": "Object"}}`, "/autoscaling/oldestDueMetric", "External"},
		{`{"networkPolicy": {"redis": {"ports": []}}}`, "/networkPolicy/redis/ports", "minItems"},
	} {
		var values map[string]any
		require.NoError(t, json.Unmarshal([]byte(c.values), &values))
		_, err := render(t, values, "Helm")
		require.ErrorContains(t, err, c.names, c.values)
		require.ErrorContains(t, err, c.why, c.values)
	}
}

// The attempts under way fit the memory: 56 KiB each over TLS with a body, MAX_IN_FLIGHT_BYTES of
// 128 MiB, and a tenth that Go does not count.
func TestTheAttemptsFitTheMemory(t *testing.T) {
	for _, set := range sets {
		c := mustRender(t, set).deployment.Spec.Template.Spec.Containers[0]
		attempts, err := strconv.Atoi(value(t, c, "MAX_IN_FLIGHT"))
		require.NoError(t, err)
		limit := c.Resources.Limits.Memory().Value()
		require.Greater(t, limit*9/10, int64(attempts)*56<<10+128<<20, set)
		require.LessOrEqual(t, c.Resources.Requests.Memory().Value(), limit, set)
	}
}

func TestTheServicesLeadToThePods(t *testing.T) {
	for _, set := range sets {
		o := mustRender(t, set)
		labels := o.deployment.Spec.Template.Labels
		names := map[string]bool{}
		for _, port := range o.deployment.Spec.Template.Spec.Containers[0].Ports {
			names[port.Name] = true
		}
		for _, service := range o.services {
			require.Subset(t, labels, service.Spec.Selector)
			for _, port := range service.Spec.Ports {
				require.True(t, names[port.TargetPort.StrVal], "%s: %s", set, port.TargetPort.StrVal)
			}
		}
		require.Subset(t, labels, o.deployment.Spec.Selector.MatchLabels)
		for _, spread := range o.deployment.Spec.Template.Spec.TopologySpreadConstraints {
			require.Subset(t, labels, spread.LabelSelector.MatchLabels)
		}
		if o.budget != nil {
			require.Subset(t, labels, o.budget.Spec.Selector.MatchLabels)
		}
		if o.policy != nil {
			require.Subset(t, labels, o.policy.Spec.PodSelector.MatchLabels)
		}
		if o.monitor != nil {
			require.Subset(t, o.services["metrics"].Labels, o.monitor.Spec.Selector.MatchLabels)
			require.NotSubset(t, o.services["api"].Labels, o.monitor.Spec.Selector.MatchLabels)
			require.Equal(t, o.services["metrics"].Spec.Ports[0].Name, o.monitor.Spec.Endpoints[0].Port)
		}
	}
}

func TestTheScalerFollowsItsMetrics(t *testing.T) {
	full := mustRender(t, "full")
	require.Nil(t, full.deployment.Spec.Replicas, "the scaler sets it")
	require.Equal(t, full.deployment.Name, full.scaler.Spec.ScaleTargetRef.Name)
	require.Len(t, full.scaler.Spec.Metrics, 2)
	require.EqualValues(t, 70, *full.scaler.Spec.Metrics[0].Resource.Target.AverageUtilization)
	external := full.scaler.Spec.Metrics[1].External
	require.Equal(t, "hookladder_oldest_due_seconds", external.Metric.Name)
	require.Equal(t, "30", external.Target.Value.String())
	require.Equal(t, full.services["metrics"].Name, external.Metric.Selector.MatchLabels["service"], "as the ServiceMonitor labels it")

	pods := mustRender(t, "cluster").scaler.Spec.Metrics
	require.Len(t, pods, 1)
	require.Equal(t, autoscalingv2.PodsMetricSourceType, pods[0].Type)
	require.Equal(t, "60", pods[0].Pods.Target.AverageValue.String())

	require.EqualValues(t, 2, *mustRender(t, "default").deployment.Spec.Replicas)
}

// The policy allows what the values name, and nothing else.
func TestTheNetworkPolicyAllowsWhatIsNamed(t *testing.T) {
	ports := func(list []networkingv1.NetworkPolicyPort) (text string) {
		for _, p := range list {
			text += fmt.Sprintf("%s/%d ", strings.ToLower(string(*p.Protocol)), p.Port.IntVal)
		}
		return strings.TrimSpace(text)
	}
	full := mustRender(t, "full").policy.Spec
	var in, out []string
	for _, rule := range full.Ingress {
		require.NotEmpty(t, rule.From)
		in = append(in, ports(rule.Ports))
	}
	for _, rule := range full.Egress {
		require.NotEmpty(t, rule.To, ports(rule.Ports))
		out = append(out, ports(rule.Ports))
	}
	require.Equal(t, []string{"tcp/8080", "tcp/9464"}, in)
	require.Equal(t, []string{"udp/53 tcp/53", "tcp/80 tcp/443", "tcp/6379", "tcp/26379", "tcp/5432", "tcp/3128", "tcp/4318"}, out)
	require.Contains(t, full.Egress[1].To[0].IPBlock.Except, "169.254.0.0/16", "the address of clouds' metadata")

	sentinel := mustRender(t, "sentinel").policy.Spec
	require.Empty(t, sentinel.Ingress[0].From, "everybody")
	require.Len(t, sentinel.Egress, 4)
	require.Equal(t, "tcp/26379", ports(sentinel.Egress[3].Ports))
}
