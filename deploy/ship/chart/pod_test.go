package chart_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// program builds the program once.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "hookladder-chart")
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, "hookladder"), "./cmd/hookladder")
	build.Dir, build.Env = "../../..", append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	if err != nil {
		_, _ = os.Stderr.Write(out)
	}
	return filepath.Join(dir, "hookladder"), err
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := program(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// secretValues are valid values of all secret settings.
var secretValues = map[string]string{
	"REDIS_URL":      "rediss://127.0.0.1:6379",
	"API_KEYS":       "0123456789abcdef:publish",
	"SIGNING_SECRET": "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
	"ENCRYPTION_KEY": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
	"ARCHIVE_URL":    "postgres://a:b@127.0.0.1/c",
	"OUTBOX_URL":     "postgres://a:b@127.0.0.1/c",
	"OPS_URL":        "https://ops.example/hooks",
	"EGRESS_PROXY":   "http://a:b@127.0.0.1:3128",
}

// foreign are the variables that the program does not read itself.
var foreign = regexp.MustCompile(`^(OTEL_[A-Z_]+|GOMEMLIMIT|GOGC|TZ)$`)

// settings returns the names of all settings, as the program prints them.
func settings(t *testing.T) (names []string) {
	t.Helper()
	path, err := program()
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), path, "config").Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		if name, _, _ := strings.Cut(line, " "); name != "SETTING" {
			names = append(names, name)
		}
	}
	require.Greater(t, len(names), 50)
	return names
}

// The program accepts the environment of each set of values: it knows each name, and each value
// is valid.
func TestTheProgramAcceptsTheEnvironmentOfThePods(t *testing.T) {
	names := settings(t)
	path, err := program()
	require.NoError(t, err)
	for _, set := range sets {
		o := mustRender(t, set)
		container := o.deployment.Spec.Template.Spec.Containers[0]
		dir := t.TempDir()
		var environ []string
		for _, env := range container.Env {
			value := env.Value
			base := strings.TrimSuffix(env.Name, "_FILE")
			switch {
			case env.ValueFrom != nil:
				require.Contains(t, secretValues, env.Name)
				value = secretValues[env.Name]
			case base != env.Name && secretValues[base] != "":
				require.Equal(t, "/etc/hookladder/secrets/"+base, value)
				value = filepath.Join(dir, base)
				require.NoError(t, os.WriteFile(value, []byte(secretValues[base]), 0o600))
			case strings.HasPrefix(value, "/etc/hookladder/files/"):
				value = mustMakeCertificates(t, dir, env.Name)
			}
			require.True(t, slices.Contains(names, env.Name) || slices.Contains(names, base) || foreign.MatchString(env.Name), "%s: %s", set, env.Name)
			environ = append(environ, env.Name+"="+value)
		}
		cmd := exec.CommandContext(t.Context(), path, "config")
		cmd.Env = environ
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", set, out)
	}
}

// Each setting of the program can be set by the chart, or the chart sets it itself.
func TestTheValuesKnowEachSettingOfTheProgram(t *testing.T) {
	own := []string{"LISTEN", "METRICS_LISTEN", "MAX_IN_FLIGHT", "SHUTDOWN_DELAY", "SHUTDOWN_GRACE"}
	never := []string{"PORT", "DATA_DIR"} // LISTEN has the port, and several instances share a Redis
	schema := mustReadSchema(t).Properties
	for _, name := range settings(t) {
		_, secret := schema["secrets"].Properties[name]
		_, file := schema["files"].Properties[name]
		_, plain := schema["settings"].Properties[name]
		ways := 0
		for _, way := range []bool{secret, file, plain, slices.Contains(own, name), slices.Contains(never, name)} {
			if way {
				ways++
			}
		}
		require.Equal(t, 1, ways, name)
		require.Equal(t, secretValues[name] != "", secret, name)
	}
	known := len(own) + len(never) + len(schema["secrets"].Properties) + len(schema["files"].Properties) + len(schema["settings"].Properties)
	require.Len(t, settings(t), known, "the schema has a setting that is gone")
}

// Every secret comes from the Secret that its value names, as a file or as a variable.
func TestSecretsComeFromTheNamedSecrets(t *testing.T) {
	pod := mustRender(t, "full").deployment.Spec.Template.Spec
	require.Equal(t, int32(0o440), *pod.Volumes[0].Projected.DefaultMode, "the group of the process reads them")
	from := map[string]string{}
	for _, volume := range pod.Volumes {
		for _, source := range volume.Projected.Sources {
			switch {
			case source.Secret != nil:
				from[source.Secret.Items[0].Path] = source.Secret.Name + " " + source.Secret.Items[0].Key
			default:
				from[source.ConfigMap.Items[0].Path] = source.ConfigMap.Name + " " + source.ConfigMap.Items[0].Key
			}
		}
	}
	require.Equal(t, map[string]string{
		"REDIS_URL": "redis url", "API_KEYS": "hookladder API_KEYS", "SIGNING_SECRET": "hookladder SIGNING_SECRET", "ENCRYPTION_KEY": "hookladder ENCRYPTION_KEY",
		"ARCHIVE_URL": "postgresql archive-url", "OUTBOX_URL": "postgresql outbox-url", "OPS_URL": "hookladder OPS_URL", "EGRESS_PROXY": "hookladder EGRESS_PROXY",
		"REDIS_CA_FILE": "redis-ca ca.crt", "EGRESS_CERT_FILE": "egress tls.crt", "EGRESS_KEY_FILE": "egress tls.key",
	}, from)

	minimal := mustRender(t, "minimal").deployment.Spec.Template.Spec
	require.Empty(t, minimal.Volumes)
	require.Contains(t, minimal.Containers[0].Env, corev1.EnvVar{Name: "REDIS_URL", ValueFrom: &corev1.EnvVarSource{
		SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "hookladder"}, Key: "REDIS_URL"},
	}})
}

// With the ndots:5 of a pod, the cluster's domains are searched first for each receiver's name.
func TestTheNamesOfReceiversAreNotSearchedInTheCluster(t *testing.T) {
	one := "1"
	for _, set := range sets {
		pod := mustRender(t, set).deployment.Spec.Template.Spec
		require.Equal(t, []corev1.PodDNSConfigOption{{Name: "ndots", Value: &one}}, pod.DNSConfig.Options)
	}
}

func TestThePodsHaveNoRights(t *testing.T) {
	for _, set := range sets {
		pod := mustRender(t, set).deployment.Spec.Template.Spec
		require.False(t, *pod.AutomountServiceAccountToken)
		require.False(t, *pod.EnableServiceLinks)
		require.False(t, pod.HostNetwork || pod.HostPID || pod.HostIPC)
		require.True(t, *pod.SecurityContext.RunAsNonRoot)
		require.EqualValues(t, 65532, *pod.SecurityContext.RunAsUser, "the image's")
		require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
		own := pod.Containers[0].SecurityContext
		require.True(t, *own.ReadOnlyRootFilesystem)
		require.False(t, *own.AllowPrivilegeEscalation)
		require.Equal(t, []corev1.Capability{"ALL"}, own.Capabilities.Drop)
		require.Empty(t, own.Capabilities.Add)
	}
	dockerfile, err := os.ReadFile("../../../Dockerfile")
	require.NoError(t, err)
	require.Contains(t, string(dockerfile), "RUN_AS=65532:65532")
}

// value returns the value of a variable.
func value(t *testing.T, c corev1.Container, name string) string {
	t.Helper()
	for _, env := range c.Env {
		if env.Name == name {
			return env.Value
		}
	}
	require.Fail(t, "the variable is not set", name)
	return ""
}

func seconds(t *testing.T, c corev1.Container, name string) int64 {
	t.Helper()
	d, err := time.ParseDuration(value(t, c, name))
	require.NoError(t, err)
	return int64(d / time.Second)
}

// Kubernetes removes a pod from its Services while the pod stops, so the stop begins with a delay.
func TestAStopLosesNoCall(t *testing.T) {
	for _, set := range sets {
		d := mustRender(t, set).deployment
		pod := d.Spec.Template.Spec
		c := pod.Containers[0]
		require.Nil(t, c.Lifecycle, "no preStop")
		delay, grace := seconds(t, c, "SHUTDOWN_DELAY"), seconds(t, c, "SHUTDOWN_GRACE")
		require.GreaterOrEqual(t, *pod.TerminationGracePeriodSeconds, delay+grace+15, set)
		probe := c.ReadinessProbe
		require.Greater(t, delay, 2*int64(probe.PeriodSeconds*probe.FailureThreshold), "it is noticed before the delay is over")
		require.Zero(t, d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue())
		require.Equal(t, 1, d.Spec.Strategy.RollingUpdate.MaxSurge.IntValue())
	}
}

func TestTheProbesAskTheRightPaths(t *testing.T) {
	for _, set := range sets {
		c := mustRender(t, set).deployment.Spec.Template.Spec.Containers[0]
		ports := map[string]int32{}
		for _, p := range c.Ports {
			ports[p.Name] = p.ContainerPort
		}
		require.Equal(t, ":9464", value(t, c, "METRICS_LISTEN"))
		require.EqualValues(t, 9464, ports["metrics"])
		for path, probe := range map[string]*corev1.Probe{"/healthz": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
			require.Equal(t, path, probe.HTTPGet.Path)
			require.Equal(t, "metrics", probe.HTTPGet.Port.StrVal)
		}
		start := c.StartupProbe
		require.Equal(t, "/healthz", start.HTTPGet.Path)
		require.Equal(t, "metrics", start.HTTPGet.Port.StrVal)
		require.Greater(t, start.PeriodSeconds*start.FailureThreshold, int32(60), "serve waits 30 s for Redis")
		if set == "minimal" {
			require.Equal(t, "off", value(t, c, "LISTEN"))
			require.NotContains(t, ports, "http")
			continue
		}
		require.Equal(t, ":8080", value(t, c, "LISTEN"))
		require.EqualValues(t, 8080, ports["http"])
	}
}
