"""langgraph, streamed, with its SqliteSaver in a file: a checkpoint of the whole state is written after each step."""

import os

from langchain_core.messages import AIMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from bench.peer.serving import INSTRUCTIONS, multiply, serve

MAX_STEPS = 200


def calculator(expression: str) -> str:
    """Calculate an arithmetic expression."""
    return multiply(expression)


def main() -> None:
    chat = ChatOpenAI(model="scripted", base_url=os.environ["OPENAI_BASE_URL"], api_key="none", streaming=True)
    with_tools = chat.bind_tools([tool(calculator)])

    def think(state: MessagesState) -> dict[str, list[AIMessage]]:
        return {"messages": [with_tools.invoke([SystemMessage(INSTRUCTIONS), *state["messages"]])]}

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode([tool(calculator)]))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", tools_condition)
    graph.add_edge("tools", "think")
    with SqliteSaver.from_conn_string("checkpoints.db") as saver:
        compiled = graph.compile(checkpointer=saver)

        def ask(session: str, question: str) -> str:
            config = {"configurable": {"thread_id": session}, "recursion_limit": MAX_STEPS}
            said = {"messages": [{"role": "user", "content": question}]}
            return "".join(
                str(message.content)
                for message, _ in compiled.stream(said, config, stream_mode="messages")
                if message.type.startswith("AI")
            )

        serve(ask)


if __name__ == "__main__":
    main()
