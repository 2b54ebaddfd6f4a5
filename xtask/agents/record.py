"""Records screens of the programs of AI agents, each with its activity, for the tests of the crate `terminal`.

Drives each program in a terminal of steplatch, with a stand-in for its model (model.py), through the same scenes. The
scene tells the activity; judge each new recording by eye. Writes NAME.json into the folder.
"""

import argparse
import concurrent.futures
import glob
import json
import os
import subprocess
import tempfile
import time

import model

parser = argparse.ArgumentParser()
parser.add_argument("--steplatch", required=True)
parser.add_argument("--agents", required=True, help="node_modules with the programs")
parser.add_argument("--node", required=True)
parser.add_argument("--folder", required=True)
parser.add_argument("programs", nargs="*")
options = parser.parse_args()

MAX_SCREENS = 30
PLATFORM = "linux-x64" if os.uname().machine == "x86_64" else "linux-arm64"
CODEX = [path for path in glob.glob(f"{options.agents}/@openai/codex/vendor/*/*/codex") if os.path.isfile(path)]
PROGRAMS = {
    "claude": [f"{options.agents}/@anthropic-ai/claude-code-{PLATFORM}/claude"],
    "codex": CODEX[:1],
    "gemini": [options.node, f"{options.agents}/.bin/gemini"],
    "opencode": [f"{options.agents}/opencode-{PLATFORM}/bin/opencode"],
    "copilot": [f"{options.agents}/@github/copilot-{PLATFORM}/copilot"],
}


def prepare(home, project, address):
    """Writes the settings of all programs, and returns their environment."""
    key = "sk-ant-stand-in-0123456789"
    files = {
        ".claude.json": {
            "hasCompletedOnboarding": True, "theme": "dark",
            "customApiKeyResponses": {"approved": [key[-20:]], "rejected": []},
            "projects": {project: {"hasTrustDialogAccepted": True, "allowedTools": []}},
        },
        ".claude/settings.json": {"permissions": {"defaultMode": "default"}},
        ".gemini/settings.json": {
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
            "general": {"enableAutoUpdate": False},
        },
        ".config/opencode/opencode.json": {
            "autoupdate": False, "model": "anthropic/claude-sonnet-4-5", "permission": {"bash": "ask"},
            "provider": {"anthropic": {"options": {"baseURL": f"{address}/v1", "apiKey": key}}},
        },
    }
    codex = f"""model = "model"
model_provider = "stand-in"
approval_policy = "on-request"
sandbox_mode = "read-only"
[model_providers.stand-in]
name = "stand-in"
base_url = "{address}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
[projects."{project}"]
trust_level = "trusted"
"""
    texts = {name: json.dumps(value) for name, value in files.items()} | {".codex/config.toml": codex}
    for name, text in texts.items():
        os.makedirs(os.path.dirname(f"{home}/{name}"), exist_ok=True)
        with open(f"{home}/{name}", "w") as file:
            file.write(text)
    return {
        "HOME": home, "PATH": os.environ["PATH"], "ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": key,
        "OPENAI_API_KEY": key, "GEMINI_API_KEY": key, "GOOGLE_GEMINI_BASE_URL": address, "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "COPILOT_PROVIDER_BASE_URL": address,
        "COPILOT_PROVIDER_TYPE": "anthropic", "COPILOT_MODEL": "claude-sonnet-4.5", "COPILOT_PROVIDER_API_KEY": key,
        "STEPLATCH_STATE_DIR": f"{home}/state", "XDG_RUNTIME_DIR": home,
    }


class Scene:
    """A terminal with one program."""

    def __init__(self, name, size, environment, project):
        self.name, self.environment, self.project = name, environment, project
        arguments = ["--name", name, "--size", f"{size[0]}x{size[1]}", "--", *PROGRAMS[name]]
        self.steplatch("terminal", "open", *arguments)
        self.screens = []

    def steplatch(self, *arguments):
        run = subprocess.run([options.steplatch, *arguments], env=self.environment, cwd=self.project, text=True,
                             stdout=subprocess.PIPE, check=True)
        return run.stdout

    def shows(self, activity, count=1):
        """Records screens, with a pause after each."""
        for _ in range(count):
            screen = json.loads(self.steplatch("terminal", "screen", self.name, "--json"))
            rows = [row.rstrip() for row in screen["screen_content"].split("\n")]
            self.screens.append({"activity": activity, "title": screen.get("title", ""), "rows": rows})
            time.sleep(1.2)

    def press(self, *keys, wait=1.0):
        for key in keys:
            self.steplatch("terminal", "send", self.name, "-k", key)
            time.sleep(0.5)
        time.sleep(wait)

    def enter(self, text, wait):
        self.steplatch("terminal", "send", self.name, text)
        self.press("enter", wait=wait)

    def interrupt(self):
        count = 2 if self.name in ("opencode", "copilot") else 1
        self.steplatch("terminal", "send", self.name, *["-k", "escape"] * count)
        time.sleep(3)


def record(name, size, environment, project):
    scene = Scene(name, size, environment, project)
    while not scene.steplatch("terminal", "screen", name).strip():
        time.sleep(1)
    time.sleep(12)
    if name == "copilot":
        scene.shows("asks")
        scene.press("enter", wait=5)
    if "auto mode your default" in "\n".join(scene.steplatch("terminal", "screen", name).split("\n")):
        scene.shows("asks")
        scene.press("down", "enter", wait=3)
    scene.shows("idle", 2)
    scene.steplatch("terminal", "send", name, "What does this")
    scene.shows("idle")
    scene.press("ctrl-u")
    scene.enter("QUOTE", 10)
    scene.shows("idle", 2)
    scene.enter("SLOW please", 3)
    scene.shows("working", 4)
    scene.interrupt()
    scene.shows("idle")
    scene.enter("RUN it", 8)
    scene.shows("asks", 3)
    scene.press("enter", wait=3)
    if name == "copilot":
        # It asks a second question.
        scene.shows("asks", 2)
    else:
        scene.shows("working", 3)
        time.sleep(16)
        scene.shows("idle")
    scene.steplatch("terminal", "close", name)
    return scene.screens


with tempfile.TemporaryDirectory() as home:
    project = f"{home}/shop"
    os.mkdir(project)
    environment = prepare(home, project, model.start())

    def write(name):
        screens = [screen for size in ((80, 24), (110, 34)) for screen in record(name, size, environment, project)]
        lines = [json.dumps(screen, ensure_ascii=False).replace(home, "/home/ana") for screen in screens[:MAX_SCREENS]]
        with open(f"{options.folder}/{name}.json", "w") as file:
            file.write("[\n" + ",\n".join(lines) + "\n]\n")
        print(f"{name}: {len(lines)} screens", flush=True)

    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(write, options.programs or PROGRAMS))
    subprocess.run([options.steplatch, "daemon", "stop"], env=environment, stdout=subprocess.DEVNULL)
