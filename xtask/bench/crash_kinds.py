"""The kinds of runs that `crash.py` disturbs. Each effect of a run appends one word to a file."""

import json
import os

# Seconds that a run may take, with all that interrupts it.
RUN_TIMEOUT = 600

# The name of the other machine.
HOST = "box"

# Asks as an installer does. The question whose number a file of its argument has is asked in other words.
INSTALLER = """
changed=$(cat "changed-$1" 2>/dev/null)
ask() {
    question=$3
    [ "$changed" = "$2" ] && question="$3, please"
    printf '%s: ' "$question"
    read -r answer
    echo "$1-$answer" >>done
}
ask "$1" 1 'Name of the site'
ask "$1" 2 'Owner of the site'
ask "$1" 3 'Continue [y/n]'
echo Installed.
"""
QUESTIONS = ["Name of the site", "Owner of the site", "Continue [y/n]"]


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def state(tool, params, to=None):
    it = {"action": {"tool": tool, "params": params}, "timeout": RUN_TIMEOUT}
    if to:
        it["transitions"] = [{"condition": "success", "next_state": to}]
    return it


def machine(*actions):
    """Returns a machine that performs the actions in their order."""
    last = len(actions) - 1
    states = {f"s{n}": state(*action, f"s{n + 1}" if n < last else None) for n, action in enumerate(actions)}
    return {"initial_state": "s0", "states": states}


class Local:
    """The definitions of runs on this machine. A definition comes with its words."""

    def __init__(self, folder):
        self.done = os.path.join(folder, "done")
        self.folder = folder

    def append(self, word):
        return f"echo {word} >>{self.done}"

    def child(self, *words):
        return machine(*(("run_command", {"command": self.append(word)}) for word in words))

    def commands(self, run):
        words = [f"{run}-{n}" for n in range(4)]
        return self.child(*words), words

    def typed(self, run):
        words = [f"{run}-{n}" for n in range(4)]
        lines = [("open_terminal", {"shell": "bash"})]
        for word in words:
            lines.append(("send_input", {"input_text": f"{self.append(word)}; echo got-$((1)){word}\n"}))
            lines.append(("await_output", {"pattern": f"^got-1{word}", "timeout": RUN_TIMEOUT}))
        return machine(*lines, ("exit_terminal", {})), words

    def in_terminal(self, run):
        words = [f"{run}-{n}" for n in range(3)]
        lines = [("run_command", {"command": self.append(word)}) for word in words]
        return machine(("open_terminal", {"shell": "bash"}), *lines, ("exit_terminal", {})), words

    def parallel(self, run):
        words = [f"{run}-{n}" for n in range(6)]
        branches = {f"b{n}": {"workflow_definition": self.child(*words[2 * n : 2 * n + 2])} for n in range(3)}
        return machine(("parallel", {"workflows": branches})), words

    def for_each(self, run):
        words = [f"{run}-{n}" for n in range(4)]
        each = state(
            "run_workflow",
            {
                "workflow_definition": self.child("{word}"),
                "initial_variables": {"word": "{item}"},
            },
        )
        each["for_each"] = {"items": words, "max_parallel": 2}
        return {"initial_state": "each", "states": {"each": each}}, words

    def dialogue(self, run):
        words = [f"{run}-{n}" for n in range(1, 5)]
        script = f'for n in 1 2 3 4; do read -r -p "Word $n? " word; echo "$word" >>{self.done}; done; echo asked-all'
        rule = {"when": "Word (\\d+)\\? $", "type": f"{run}-{{groups.1}}\n", "times": 4}
        answer = {"rules": [rule], "until": "asked-all", "timeout": RUN_TIMEOUT, "max_answers": 4}
        return machine(("open_terminal", {"command": ["bash", "-c", script]}), ("dialogue", answer)), words

    def nested(self, run):
        words = [f"{run}-{n}" for n in range(4)]
        inner, _ = self.in_terminal(f"{run}-inner")
        outer = machine(
            ("run_command", {"command": self.append(words[0])}),
            ("run_workflow", {"workflow_definition": inner}),
            ("run_workflow", {"workflow_definition": self.child(*words[1:3])}),
            ("run_command", {"command": self.append(words[3])}),
        )
        return outer, words + [f"{run}-inner-{n}" for n in range(3)]

    def files(self, run):
        """A file that is written, and read by the next command."""
        words = [f"{run}-{n}" for n in range(2)]
        path = os.path.join(self.folder, f"file-{run}")
        put = [("put_file", {"path": path, "content": word + "\n", "overwrite": True}) for word in words]
        read = ("run_command", {"command": f"cat {path} >>{self.done}"})
        return machine(put[0], read, put[1], read), words

    def copies(self, run):
        """A file of several pieces, of which the next command reads the end."""
        word, path = f"{run}-0", os.path.join(self.folder, f"copy-{run}")
        with open(f"{path}-from", "wb") as file:
            file.write(os.urandom(3 << 20) + f"\n{word}\n".encode())
        put = ("put_file", {"path": path, "from": f"{path}-from"})
        read = ("run_command", {"command": f"tail -n 1 {path} >>{self.done}"})
        return machine(put, read, ("run_command", {"command": f"rm {path} {path}-from"})), [word]

    def fetched(self, run):
        """A file of several pieces that is fetched, and of which the next command reads the end."""
        word, path = f"{run}-0", os.path.join(self.folder, f"fetched-{run}")
        with open(f"{path}-from", "wb") as file:
            file.write(os.urandom(3 << 20) + f"\n{word}\n".encode())
        get = ("get_file", {"path": f"{path}-from", "to": path})
        read = ("run_command", {"command": f"tail -n 1 {path} >>{self.done}"})
        return machine(get, read, ("run_command", {"command": f"rm {path} {path}-from"})), [word]

    def timers(self, run):
        """Commands between sleeps."""
        words = [f"{run}-{n}" for n in range(3)]
        lines = []
        for number, word in enumerate(words):
            lines += [("run_command", {"command": self.append(word)}), ("sleep", {"seconds": 0.2 + 0.4 * number})]
        return machine(*lines), words

    def gate(self, run):
        """A command on each side of a gate."""
        words = [f"{run}-{n}" for n in range(2)]
        lines = [("run_command", {"command": self.append(word)}) for word in words]
        ask = ("gate", {"prompt": f"Go on with {run}?", "choices": ["yes", "no"]})
        return machine(lines[0], ask, lines[1]), words

    def nodes(self, run):
        """Nodes and a graph of the project. The outcome of a node that was running when its daemon ended is unknown."""
        words = [f"{run}-{n}" for n in range(2)]
        calls = [("run_node", {"node_id": "note", "input": word}) for word in words]
        graph = ("run_graph", {"graph_id": "notes", "input": f"{run}-graph"})
        return machine(calls[0], graph, calls[1]), words + [f"{run}-graph"]

    def declare_nodes(self):
        """Declares the nodes of the project: a graph passes its input on to its step."""
        write(
            os.path.join(self.folder, "steplatch.toml"),
            f'[nodes.note]\ntype = "bash"\ncommand = "echo {{input|sh}} >>{self.done}"\n'
            '[graphs.notes]\nsteps = [{ id = "one", node = "note" }]\n',
        )

    def function(self, run):
        """Nodes of a function. The outcome of one that was running when its daemon ended is unknown, and its run says so."""
        words = [f"{run}-{n}" for n in range(4)]
        source = f"""
async def work(ctx: WorkflowContext) -> str:
    results = [await ctx.run("note", "{words[0]}")]
    results += await ctx.run_parallel([("note", "{words[1]}"), ("note", "{words[2]}")])
    results += [await ctx.run("note", "{words[3]}")]
    failed = [result["error_type"] for result in results if not result["success"]]
    if failed:
        raise RuntimeError(f"nodes: {{failed}}")
    return "done"


BashNode(id="note", session=session, command="echo {{input|sh}} >>{self.done}")
Workflow(id="work", session=session, fn=work)
"""
        path = os.path.join(self.folder, f"{run}.py")
        write(path, source)
        return path, words


class Captured:
    """A workflow that was captured from a session in a terminal, on this machine or on another one.

    A run that is to be repaired has a copy of it, because a patch is the next version of the workflow for all.
    """

    def __init__(self, name, folder, agent, host):
        self.name, self.folder = name, folder
        write(os.path.join(folder, "setup.sh"), INSTALLER)
        terminal = self.perform(agent, {"host": host} if host else {"working_directory": folder})
        reply = checked(agent.call("capture_workflow", session_ids=[terminal], name=name, inputs={"word": "first"}, save=True))
        if reply["left_out"] or reply["undecided"]:
            raise ValueError(f"the capture is not complete: {reply}")
        agent.call("exit_terminal", session_id=terminal)
        self.states = reply["workflow_definition"]["states"]
        self.files = {".json": reply["path"], ".golden.jsonl": reply["golden_path"]}

    def perform(self, agent, where):
        """Performs the session that is captured, and returns its terminal."""
        terminal = checked(agent.call("open_terminal", shell="bash", **where))["session_id"]
        into = {"session_id": terminal, "timeout": 60}
        checked(agent.call("run_command", command="echo first-c >>done", **into))
        for line in ("sh setup.sh first", "first-1", "first-2"):
            checked(agent.call("send_input", input_text=f"{line}\n", until="input", **into))
        checked(agent.call("send_input", input_text="y\n", until="prompt", **into))
        checked(agent.call("run_command", command="echo first-d >>done", **into))
        return terminal

    def words(self, run):
        return [f"{run}-{end}" for end in ("c", f"{run}-1", f"{run}-2", "y", "d")]

    def request(self, name, run):
        return {"workflow_name": name, "initial_variables": {"WORD": run}}

    def run(self, run):
        return self.request(self.name, run), self.words(run), None

    def repaired_run(self, run, number):
        """Returns a run whose program asks one of its questions in other words, and its repair."""
        name = f"{self.name}-{run}"
        for end, path in self.files.items():
            with open(path) as file:
                text = file.read()
            write(os.path.join(os.path.dirname(path), name + end), text.replace(f'"{self.name}"', f'"{name}"'))
        write(os.path.join(self.folder, f"changed-{run}"), str(number + 1))
        return self.request(name, run), self.words(run), Repair(self.states, name, QUESTIONS[number])


def checked(reply):
    if not reply.get("success"):
        raise ValueError(f"the session that is captured: {reply}")
    return reply


class Repair:
    """The repair of one run: an agent proposes a patch, and a person accepts it.

    Either may be interrupted. Then the open gate of the run says what is to be repeated: a proposal that was not recorded, or
    an answer, of which the first one counts.
    """

    def __init__(self, states, name, question):
        self.name, self.question = name, question
        waiting = ((state, it["action"]["params"].get("pattern", "")) for state, it in states.items())
        self.state, self.pattern = next((state, text) for state, text in waiting if question.split()[0] in text)
        self.accepted = None

    def step(self, home, agent, gate):
        """Answers the open gate. Returns a complaint where the run waits at a gate that it should not wait at."""
        if gate["gate_id"] == self.accepted:
            return "lost: the answer of a person"
        if gate["gate_id"].split("/")[1].removesuffix("-patch") != self.state:
            return f"failed: {gate['prompt']}"
        if gate["answered_by"] == "agent":
            self.propose(agent, gate["run_id"])
        elif home.answers(gate["gate_id"], gate["choices"][0]):
            self.accepted = gate["gate_id"]
        return None

    def propose(self, agent, run):
        question = self.question.replace("[", "\\[").replace("]", "\\]")
        pattern = {"op": "replace", "path": f"/states/{self.state}/action/params/pattern"}
        pattern["value"] = f"{self.pattern}|^{question}, please: *$"
        agent.call("propose_patch", run_id=run, patch=[pattern], reason="The installer asks in other words")

    def complaint(self, home, reply):
        """Returns the mistake of a run that has completed: it reports one repair, and its patch is saved once."""
        repairs = reply.get("repairs") or []
        if len(repairs) != 1 or repairs[0].get("version") != 2:
            return f"its repairs are {repairs}"
        versions = json.loads(home.commands("workflow", "history", self.name, "--json"))["versions"]
        if [version.get("through") for version in versions].count("repair") != 1:
            return f"its workflow has the versions {versions}"
        return None


class Gate:
    """The only gate of a run, which a person answers. The first answer that was taken counts."""

    def __init__(self):
        self.answered = None

    def step(self, home, agent, gate):
        """Answers the gate. Returns a complaint where the run asks again."""
        if gate["gate_id"] == self.answered:
            return "lost: the answer of a person"
        if home.answers(gate["gate_id"], "yes"):
            self.answered = gate["gate_id"]
        return None

    def complaint(self, home, reply):
        return None


LOCAL = ["commands", "typed", "in_terminal", "parallel", "for_each", "dialogue", "nested", "files", "copies", "fetched"]
LOCAL += ["timers", "gate", "nodes", "function"]
# Kinds of runs whose outcome is unknown where a node was running when its daemon ended.
CALLING = ["nodes", "function"]
FAR = [f"far_{kind}" for kind in ("commands", "typed", "in_terminal", "dialogue", "files", "copies", "fetched")]
CAPTURED = ["captured", "repaired"]
FAR_CAPTURED = ["far_captured", "far_repaired"]
ALL = LOCAL + CAPTURED + FAR + FAR_CAPTURED


class Kinds:
    """The runs of the kinds that were chosen."""

    def __init__(self, chosen, home, agent, machine):
        self.chosen, self.local = chosen, Local(home.home)
        self.local.declare_nodes()
        self.captured = {}
        if set(chosen) & set(CAPTURED):
            self.captured[""] = Captured("setup", home.home, agent, None)
        if set(chosen) & set(FAR_CAPTURED):
            os.symlink(self.local.done, os.path.join(machine.home, "done"))
            self.captured["far_"] = Captured("far-setup", machine.home, agent, HOST)

    def run(self, kind, run, random):
        """Returns the arguments of `run_workflow`, the words of the run, and its repair if it has one."""
        far = "far_" if kind.startswith("far_") else ""
        name = kind.removeprefix("far_")
        if name == "captured":
            return self.captured[far].run(run)
        if name == "repaired":
            return self.captured[far].repaired_run(run, random.randrange(len(QUESTIONS)))
        given, words = getattr(self.local, name)(run)
        if kind == "function":
            return {"workflow_file": given}, words, None
        if far:
            given["host"] = HOST
        return {"workflow_definition": given}, words, Gate() if kind == "gate" else None
